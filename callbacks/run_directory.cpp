#include <giro/callbacks/run_directory.h>

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "runtime/files/file_operations.h"
#include "runtime/files/store_names.h"
#include "runtime/text.h"
#include "runtime/throw_error.h"

namespace giro {
namespace {

using detail::path_of;

// The number of a numbered directory, or 0.
std::int64_t number_of(const std::string& name) {
  const std::int64_t number = parse_number<std::int64_t>(name).value_or(0);
  return number > 0 && name.front() != '0' ? number : 0;
}

std::vector<std::string> names_in(FileSystem& files, const std::string& dir) {
  std::vector<std::string> names;
  detail::unless_gone([&] { names = files.list(dir); });
  return names;
}

std::string choose(const std::string& dir, const RunDirectoryOptions& options) {
  FileSystem& files = *options.files;
  std::string path = dir;
  std::unique_ptr<FileSystem::Lock> lock;  // while a number is chosen and its directory is created
  if (path.empty()) {
    files.create_directories(options.parent);
    while (!(lock = files.lock(path_of(options.parent, ".lock"), "a program that begins a run"))) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }

    std::int64_t newest = 0;
    for (const std::string& name : names_in(files, options.parent)) newest = std::max(newest, number_of(name));
    path = path_of(options.parent, std::to_string(options.resume && newest > 0 ? newest : newest + 1));
  }
  if (!options.resume && !names_in(files, path).empty()) {
    throw_invalid(
        "'{}' already holds a run; expected to resume it, another directory, or an empty name for a numbered one",
        path);
  }
  files.create_directories(path);
  // Detects a directory that cannot be written to before the run rather than after it.
  const std::string probe = path_of(path, fmt::format(".probe-{}", ::getpid()));
  files.create(probe)->close();
  files.remove(probe);
  return path;
}

}  // namespace

std::string run_directory(const std::string& dir, const RunDirectoryOptions& options) {
  return decide_on_rank_0(options.partitioner.get(), [&] { return choose(dir, options); });
}

}  // namespace giro
