#include "runtime/internal/directories.h"

#include <filesystem>

#include <giro/runtime/error.h>

namespace giro::detail {

void create_durable_directory(FileSystem& files, const std::string& path) {
  try {
    files.list(path);
    return;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::not_found) throw;
  }
  const std::filesystem::path above = std::filesystem::path(path).parent_path();
  const std::string parent = above.empty() ? std::string(".") : above.string();
  if (parent != path) create_durable_directory(files, parent);
  files.create_directories(path);
  files.sync_directory(parent);
}

void remove_all(FileSystem& files, const std::string& path) {
  if (files.status(path).kind == FileSystem::Kind::directory) {
    for (const std::string& name : files.list(path)) remove_all(files, (std::filesystem::path(path) / name).string());
  }
  files.remove(path);
}

}  // namespace giro::detail
