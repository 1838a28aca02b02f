#include "callbacks/internal/checkpoint_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

namespace giro::detail {
namespace {

constexpr std::string_view kPrefix = "checkpoint_", kSuffix = ".safetensors";

template <class T>
T read_metadata(const Safetensors& file, const std::string& path, const std::string& key) {
  const auto found = file.metadata.find(key);
  if (found == file.metadata.end()) {
    throw Error(ErrorCode::corrupt_data, fmt::format("checkpoint '{}' has no metadata '{}'", path, key));
  }
  const std::optional<T> number = parse<T>(found->second);
  if (!number || !(*number >= 0 && std::isfinite(static_cast<double>(*number)))) {
    throw Error(ErrorCode::corrupt_data, fmt::format("checkpoint '{}': metadata '{}' is {:?}, expected a number >= 0",
                                                     path, key, found->second));
  }
  return *number;
}

}  // namespace

std::string checkpoint_name(std::int64_t steps) { return fmt::format("{}{:010}{}", kPrefix, steps, kSuffix); }

std::string join(const std::string& dir, const std::string& name) {
  return (std::filesystem::path(dir) / name).string();
}

std::vector<CheckpointFile> find_checkpoints(FileSystem& files, const std::string& dir) {
  std::vector<CheckpointFile> found;
  for (const std::string& name : files.list(dir)) {
    if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix) || name.size() < kPrefix.size() + kSuffix.size()) {
      continue;
    }
    const std::size_t length = name.size() - kPrefix.size() - kSuffix.size();
    const auto steps = parse<std::int64_t>(std::string_view(name).substr(kPrefix.size(), length));
    if (steps && name == checkpoint_name(*steps)) found.push_back({*steps, name});
  }
  std::sort(found.begin(), found.end(),
            [](const CheckpointFile& a, const CheckpointFile& b) { return a.steps < b.steps; });
  return found;
}

Elapsed read_elapsed(const Safetensors& file, const std::string& path) {
  return {.steps = read_metadata<std::int64_t>(file, path, "steps"),
          .samples = read_metadata<std::int64_t>(file, path, "samples"),
          .date = read_metadata<double>(file, path, "time"),
          .date_start = 0,
          .previous_samples = read_metadata<std::int64_t>(file, path, "previous_samples"),
          .previous_date = read_metadata<double>(file, path, "previous_time")};
}

bool is_damage(const Error& error) {
  return error.code() == ErrorCode::corrupt_data || error.code() == ErrorCode::unsupported;
}

}  // namespace giro::detail
