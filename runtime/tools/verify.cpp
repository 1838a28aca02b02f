#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <vector>

#include <giro/runtime/checkpoint_store.h>
#include <giro/runtime/error.h>

#include "runtime/tools/commands.h"
#include "runtime/tools/contents.h"

namespace giro::tools {
namespace {

bool is_good(const std::string& checkpoint) {
  try {
    (void)load_checkpoint(checkpoint);
    fmt::print("ok: {}\n", checkpoint);
    return true;
  } catch (const Error& error) {
    std::error_code ignored;
    const bool removed = !std::filesystem::exists(checkpoint, ignored);  // by the run that saves there
    fmt::print("{}: {}\n", removed ? "removed meanwhile" : "failed", error.what());
    return removed;
  }
}

}  // namespace

int verify(const std::string& path) {
  if (!std::filesystem::exists(path)) throw Error(ErrorCode::not_found, fmt::format("there is no '{}'", path));
  if (is_checkpoint(path)) return is_good(path) ? kGood : kDifferentOrDamaged;

  std::vector<std::string> unreadable;
  const std::vector<StoredCheckpoint> stored = CheckpointStore(path).all(&unreadable);
  if (stored.empty() && unreadable.empty()) {
    throw Error(ErrorCode::not_found, fmt::format("no checkpoint in the directory '{}'", path));
  }
  bool all_good = unreadable.empty();
  for (const StoredCheckpoint& checkpoint : stored) all_good = is_good(checkpoint.path) && all_good;
  for (const std::string& reason : unreadable) fmt::print("failed: {}\n", reason);
  return all_good ? kGood : kDifferentOrDamaged;
}

}  // namespace giro::tools
