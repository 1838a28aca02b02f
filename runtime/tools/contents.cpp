#include "runtime/tools/contents.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include <giro/runtime/files/save_load.h>

namespace giro::tools {

Contents load_contents(const std::string& path) {
  std::error_code error;  // load() reports what is wrong with such a path
  if (!std::filesystem::is_directory(path, error)) {
    Safetensors file = load(path);
    return {path, std::move(file.tensors), std::move(file.memory), std::move(file.metadata), {}};
  }
  LoadedCheckpoint loaded = load_checkpoint(path);
  for (const std::string& reason : loaded.skipped) fmt::print("skipped: {}\n", reason);
  return {std::move(loaded.path),   std::move(loaded.leaves), std::move(loaded.owner), {},
          std::move(loaded.record), std::move(loaded.archive)};
}

std::string type_of(const Tensor& tensor) {
  return fmt::format("{} {}", name_of(tensor.dtype()), to_string(tensor.shape()));
}

std::string for_terminal(std::string_view name) {
  const std::string quoted = fmt::format("{:?}", name.substr(0, 200));
  return quoted.substr(1, quoted.size() - 2) + (name.size() > 200 ? "..." : "");
}

}  // namespace giro::tools
