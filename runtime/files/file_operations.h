#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include <giro/runtime/error.h>
#include <giro/runtime/files/file_system.h>

namespace giro::detail {

// A file in memory.
struct FileBytes {
  std::shared_ptr<char[]> data;
  std::size_t size = 0;
};

// The first `limit` bytes of a file, fewer if it is shorter.
FileBytes read_bytes(FileSystem& files, const std::string& path, std::size_t limit = static_cast<std::size_t>(-1));
// Writes to a file, syncs and closes it.
void write_durably(FileSystem::Writer& file, std::string_view content);

// Calls f, an operation on a path. Returns false if there is nothing, e.g. because somebody else has removed it.
template <class F>
bool unless_gone(F&& f) {
  try {
    f();
    return true;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::not_found) throw;
    return false;
  }
}

// For what may fail, and for cleanup that must not hide the original error.
template <class F>
void ignore_errors(F&& f) {
  try {
    f();
  } catch (const Error&) {
  }
}

// Creates a directory, and missing parents, durably. An existing directory may have been created by a process that died
// before it could sync the parent, so the parent is synced, if it can be read.
void create_durable_directory(FileSystem& files, const std::string& path);

// Removes a file, or a directory with everything in it. Symbolic links are not followed.
void remove_all(FileSystem& files, const std::string& path);

// Removes the temporaries of files with paths that begin with `prefix`, left by a process that died in replace_file.
// Call only while holding the lock of these files.
void remove_temporaries(FileSystem& files, const std::string& prefix);

// Takes the lock at `path` for writing `what`, a file or a directory. Error(invalid_argument), naming `what` and the
// process, if it is held already, by this process or another.
std::unique_ptr<FileSystem::Lock> lock_for_writing(FileSystem& files, const std::string& path, const std::string& what);
// The holder of the lock at `path`, or the last one, e.g. "process 123 on host"; empty if there was none.
std::string lock_holder(FileSystem& files, const std::string& path);

}  // namespace giro::detail
