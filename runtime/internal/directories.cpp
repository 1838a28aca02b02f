#include "runtime/internal/directories.h"

#include <filesystem>

#include <giro/runtime/error.h>

namespace giro::detail {
namespace {

bool exists(FileSystem& files, const std::string& directory) {
  try {
    files.list(directory);
    return true;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::not_found) throw;
    return false;
  }
}

}  // namespace

void create_durable_directory(FileSystem& files, const std::string& path) {
  const std::filesystem::path above = std::filesystem::path(path).parent_path();
  const std::string parent = above.empty() ? std::string(".") : above.string();
  if (exists(files, path)) {
    if (parent == path) return;
    try {
      files.sync_directory(parent);
    } catch (const Error&) {
      // Others' directories need not be open to us.
    }
    return;
  }
  create_durable_directory(files, parent);
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
