#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <giro/loop/time/elapsed.h>
#include <giro/runtime/error.h>
#include <giro/runtime/file_system.h>
#include <giro/runtime/safetensors.h>

// The files that a checkpoint's directory holds, by their names and their metadata.
namespace giro::detail {

struct CheckpointFile {
  std::int64_t steps;
  std::string name;
};

std::string checkpoint_name(std::int64_t steps);
std::string join(const std::string& dir, const std::string& name);
// The checkpoints in a directory, oldest first. What has another name, such as a temporary left by a crash, is not
// ours to touch.
std::vector<CheckpointFile> find_checkpoints(FileSystem& files, const std::string& dir);

// The metadata of a good checkpoint. Error(corrupt_data) naming what is missing or no number.
Elapsed read_elapsed(const Safetensors& file, const std::string& path);
// What a file that is no good checkpoint, or none of this version, is refused with.
bool is_damage(const Error& error);

template <class T>
std::optional<T> parse(std::string_view text) {
  T number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace giro::detail
