#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <giro/runtime/error.h>
#include <giro/runtime/files/checkpoint_store.h>
#include <giro/runtime/files/file_system.h>

#include "runtime/files/file_operations.h"
#include "runtime/files/store_names.h"
#include "runtime/throw_error.h"
#include "runtime/tools/commands.h"
#include "runtime/tools/contents.h"

namespace giro::tools {
namespace {

// Excludes the files of lines, which checkpoints share. 0 for a checkpoint that has been removed meanwhile.
std::uint64_t bytes_of(FileSystem& files, const std::string& checkpoint) {
  const FileSystem::Status status = files.status(checkpoint);
  if (status.kind != FileSystem::Kind::directory) return status.bytes;
  std::uint64_t bytes = 0;
  detail::unless_gone([&] {
    for (const std::string& name : files.list(checkpoint)) {
      bytes += files.status(detail::path_of(checkpoint, name)).bytes;
    }
  });
  return bytes;
}

std::string or_dash(const std::string& text) { return text.empty() ? "-" : for_terminal(text); }

}  // namespace

int list(const std::string& dir) {
  std::error_code error;
  if (!std::filesystem::is_directory(dir, error) || is_checkpoint(dir)) {
    throw_error(ErrorCode::not_found, "'{}' is not a directory of checkpoints", dir);
  }
  FileSystem& files = *posix_file_system();
  std::vector<std::string> unreadable;
  const std::vector<StoredCheckpoint> stored = CheckpointStore(dir).all(&unreadable);
  if (!stored.empty()) {
    fmt::print("{:>10} {:>12} {:>12} {:>14} {:>7}  {:16} {:>12}  {}\n", "steps", "samples", "seconds", "bytes",
               "version", "monitor", "best", "not finite");
  }
  for (const auto& [path, version, record] : stored) {
    fmt::print("{:>10} {:>12} {:>12.3f} {:>14} {:>7}  {:16} {:>12}  {}\n", record.steps, record.samples, record.time,
               bytes_of(files, path), version, or_dash(record.monitor),
               record.best ? fmt::format("{:.6g}", *record.best) : "-", or_dash(record.not_finite));
  }
  for (const std::string& reason : unreadable) fmt::print("unreadable: {}\n", reason);
  if (stored.empty() && unreadable.empty()) fmt::print("no checkpoint in '{}'\n", dir);
  return kGood;
}

}  // namespace giro::tools
