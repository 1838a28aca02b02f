#include "runtime/files/file_operations.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <vector>

#include "runtime/files/store_names.h"
#include "runtime/throw_error.h"

namespace giro::detail {

FileBytes read_bytes(FileSystem& files, const std::string& path, std::size_t limit) {
  const auto reader = files.open(path);
  const std::size_t size = std::min(limit, reader->size());
  FileBytes file{std::shared_ptr<char[]>(new char[size])};  // uninitialized; reading fills it
  file.size = reader->read(file.data.get(), size);
  return file;
}

void write_durably(FileSystem::Writer& file, std::string_view content) {
  file.write(content.data(), content.size());
  file.sync();
  file.close();
}

void create_durable_directory(FileSystem& files, const std::string& path) {
  const std::filesystem::path above = std::filesystem::path(path).parent_path();
  const std::string parent = above.empty() ? std::string(".") : above.string();
  if (unless_gone([&] { files.list(path); })) {
    if (parent == path) return;
    // The parent may belong to another user and be unreadable.
    return ignore_errors([&] { files.sync_directory(parent); });
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

void remove_temporaries(FileSystem& files, const std::string& prefix) {
  constexpr std::string_view kMark = ".tmp-";
  const std::filesystem::path path(prefix);
  const std::string above = path.parent_path().string(), begin = path.filename().string();
  for (const std::string& name : files.list(above.empty() ? "." : above)) {
    const std::size_t mark = name.rfind(kMark);
    if (!name.starts_with(begin) || mark == name.npos || mark + kMark.size() == name.size()) continue;
    const bool is_process = std::all_of(name.begin() + static_cast<std::ptrdiff_t>(mark + kMark.size()), name.end(),
                                        [](unsigned char c) { return std::isdigit(c) != 0; });
    if (is_process) files.remove(path_of(above, name));
  }
}

std::string lock_holder(FileSystem& files, const std::string& path) {
  if (files.status(path).kind != FileSystem::Kind::file) return {};
  const std::vector<char> holder = files.read(path);
  return std::string(holder.begin(), holder.end()).substr(0, 300);
}

std::unique_ptr<FileSystem::Lock> lock_for_writing(FileSystem& files, const std::string& path,
                                                   const std::string& what) {
  std::unique_ptr<FileSystem::Lock> lock = files.lock(path, this_process());
  if (lock) return lock;
  const std::string holder = lock_holder(files, path);
  throw_invalid("'{}' is being written by {}{}", what, holder.empty() ? "another writer" : holder,
                holder == this_process() ? ", this one" : "");
}

}  // namespace giro::detail
