#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <giro/runtime/error.h>
#include <giro/runtime/files/checkpoint_store.h>
#include <giro/runtime/files/file_system.h>

#include "runtime/files/file_operations.h"
#include "runtime/files/manifest.h"
#include "runtime/files/store_names.h"
#include "runtime/throw_error.h"
#include "runtime/tools/commands.h"
#include "runtime/tools/contents.h"

namespace giro::tools {
namespace {

// Whether an existing path is a checkpoint rather than a directory of checkpoints.
bool is_checkpoint(const std::string& path) {
  std::error_code error;
  return !std::filesystem::is_directory(path, error) ||
         std::filesystem::exists(detail::path_of(path, detail::kManifestName), error);
}

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

// Distinguishes a checkpoint from another that has taken its name; empty if there is none.
std::string identity_of(const std::string& checkpoint) {
  try {
    const std::vector<char> text = posix_file_system()->read(detail::path_of(checkpoint, detail::kManifestName));
    return {text.begin(), text.end()};
  } catch (const Error&) {
    return {};
  }
}

// Whether it was copied elsewhere without the lines it refers to.
bool lacks_its_line_files(const std::string& checkpoint) {
  FileSystem& files = *posix_file_system();
  const std::string dir = detail::path_of(checkpoint, "..");
  const std::vector<detail::Manifest::Lines> lines = detail::read_manifest(files, checkpoint).lines;
  return std::all_of(lines.begin(), lines.end(), [&](const auto& of_path) {
    return files.status(detail::path_of(dir, of_path.name)).kind == FileSystem::Kind::none;
  });
}

// `named`: given by the user, rather than found in a directory.
bool is_good(const std::string& checkpoint, bool named) {
  for (std::string before = identity_of(checkpoint);;) {
    std::string wrong;
    try {
      const LoadedCheckpoint loaded = load_checkpoint(checkpoint);
      if (!loaded.skipped.empty()) wrong = loaded.skipped.front();
      if (wrong.empty() || (named && lacks_its_line_files(checkpoint))) {
        fmt::print("ok{}: {}\n", wrong.empty() ? "" : ", without its lines", checkpoint);
        return true;
      }
    } catch (const Error& error) {
      wrong = error.what();
    }
    // The run that saves there may have removed or replaced it.
    std::error_code ignored;
    if (!named && !std::filesystem::exists(checkpoint, ignored)) {
      fmt::print("removed meanwhile: {}\n", wrong);
      return true;
    }
    std::string now = identity_of(checkpoint);
    if (now == before) {
      fmt::print("failed: {}\n", wrong);
      return false;
    }
    before = std::move(now);
  }
}

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

int verify(const std::string& path) {
  if (!std::filesystem::exists(path)) throw_error(ErrorCode::not_found, "there is no '{}'", path);
  if (is_checkpoint(path)) return is_good(path, /*named=*/true) ? kGood : kDifferentOrDamaged;

  std::vector<std::string> unreadable;
  const std::vector<StoredCheckpoint> stored = CheckpointStore(path).all(&unreadable);
  if (stored.empty() && unreadable.empty()) {
    throw_error(ErrorCode::not_found, "no checkpoint in the directory '{}'", path);
  }
  bool all_good = unreadable.empty();
  for (const StoredCheckpoint& checkpoint : stored) all_good = is_good(checkpoint.path, /*named=*/false) && all_good;
  for (const std::string& reason : unreadable) fmt::print("failed: {}\n", reason);
  return all_good ? kGood : kDifferentOrDamaged;
}

}  // namespace giro::tools
