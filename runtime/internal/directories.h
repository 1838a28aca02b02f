#pragma once

#include <string>

#include <giro/runtime/file_system.h>

namespace giro::detail {

// Makes a directory, and those above it where there are none, durable when this returns.
void create_durable_directory(FileSystem& files, const std::string& path);

// Removes a file, or a directory with all that is in it. Symbolic links are not followed.
void remove_all(FileSystem& files, const std::string& path);

}  // namespace giro::detail
