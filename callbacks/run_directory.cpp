#include <giro/callbacks/run_directory.h>

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <thread>
#include <vector>

#include <giro/runtime/error.h>

namespace giro {
namespace {

// The number of a directory that was numbered, or 0.
std::int64_t number_of(const std::string& name) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  const bool is_number = error == std::errc() && end == name.data() + name.size() && number > 0 && name.front() != '0';
  return is_number ? number : 0;
}

std::vector<std::string> names_in(FileSystem& files, const std::string& dir) {
  try {
    return files.list(dir);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::not_found) throw;
    return {};
  }
}

}  // namespace

std::string run_directory(const std::string& dir, const RunDirectoryOptions& options) {
  if (options.partitioner && options.partitioner->rank() != 0) return options.partitioner->broadcast("");
  FileSystem& files = *options.files;
  const auto inside = [](const std::string& above, const std::string& name) {
    return (std::filesystem::path(above) / name).string();
  };
  std::string path = dir;
  std::unique_ptr<FileSystem::Lock> lock;  // while a number is chosen, and its directory is made
  if (path.empty()) {
    files.create_directories(options.parent);
    while (!(lock = files.lock(inside(options.parent, ".lock"), "a program that begins a run"))) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }

    std::int64_t newest = 0;
    for (const std::string& name : names_in(files, options.parent)) newest = std::max(newest, number_of(name));
    path = inside(options.parent, std::to_string(options.resume && newest > 0 ? newest : newest + 1));
  }
  if (!options.resume && !names_in(files, path).empty()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("'{}' holds a run already; expected another directory, or to resume that run", path));
  }
  files.create_directories(path);
  // Better to know before than after the run that it takes no files.
  const std::string probe = inside(path, fmt::format(".probe-{}", ::getpid()));
  files.create(probe)->close();
  files.remove(probe);
  return options.partitioner ? options.partitioner->broadcast(path) : path;
}

}  // namespace giro
