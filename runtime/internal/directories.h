#pragma once

#include <string>

#include <giro/runtime/file_system.h>

namespace giro::detail {

// Makes a directory, and those above it where there are none, durable when this returns. One that is there already may
// be what a process has made that died before it could sync the directory above: so that is synced, if it may be read.
void create_durable_directory(FileSystem& files, const std::string& path);

// Removes a file, or a directory with all that is in it. Symbolic links are not followed.
void remove_all(FileSystem& files, const std::string& path);

}  // namespace giro::detail
