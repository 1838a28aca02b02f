#pragma once

#include <memory>
#include <string>

#include <giro/runtime/file_system.h>

namespace giro::detail {

// Makes a directory, and those above it where there are none, durable when this returns. One that is there already may
// be what a process has made that died before it could sync the directory above: so that is synced, if it may be read.
void create_durable_directory(FileSystem& files, const std::string& path);

// Removes a file, or a directory with all that is in it. Symbolic links are not followed.
void remove_all(FileSystem& files, const std::string& path);

// Removes the temporaries that a process left that died within replace_file, of the files whose paths begin with
// `prefix`. For the one that holds the lock of these files.
void remove_temporaries(FileSystem& files, const std::string& prefix);

// Takes the lock at `path`, which a writer of `what`, a file or a directory, holds. Error(invalid_argument), naming
// `what` and the process, where another holds it, in this process or any other.
std::unique_ptr<FileSystem::Lock> lock_for_writing(FileSystem& files, const std::string& path, const std::string& what);
// The holder of the lock at `path`, or the last one, as in "process 123 on host"; empty: nobody yet.
std::string lock_holder(FileSystem& files, const std::string& path);

}  // namespace giro::detail
