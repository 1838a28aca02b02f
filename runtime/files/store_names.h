#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <giro/runtime/files/file_system.h>

// The names in a directory of checkpoints:
//   checkpoint_0000001000                       a checkpoint, whole
//   checkpoint_0000001000.tmp-<pid>-<n>@<host>  being written, by that process and those that save with it
//   checkpoint_0000001000.old-<pid>-<n>@<host>  being replaced by another of the same steps
//   checkpoint_0000001000.trash-<pid>-<n>@<host>  being removed
//   checkpoint_0000001000.ahead-<pid>-<n>@<host>  set aside by a run that continues from an earlier step
//   checkpoint_0000001000.safetensors           a checkpoint of version 0.1, which cannot be read
//   lines_<n>.jsonl                             lines that checkpoints refer to
//   .lock                                       locked by the process that writes
// Entries with other names are left alone.
namespace giro::detail {

// At equal steps, a later kind is better, up to `checkpoint`.
enum class StoreEntryKind { old, checkpoint, incomplete, trash, ahead };

struct StoreEntry {
  std::int64_t steps = 0;
  StoreEntryKind kind = StoreEntryKind::checkpoint;
  std::string name;
  bool of_this_host = true;
};

inline constexpr std::string_view kManifestName = "checkpoint.json", kStateName = "state.safetensors",
                                  kMemoryName = "memory.safetensors", kLockName = ".lock";

std::string path_of(const std::string& dir, std::string_view name);
std::string host_name();
// E.g. "process 123 on host".
std::string this_process();

std::string unit_name(std::int64_t steps);
// An unused name next to a checkpoint's; `what` is "tmp", "old", "trash" or "ahead".
std::string side_name(std::int64_t steps, std::string_view what);
std::string lines_name(std::int64_t number);
std::optional<std::int64_t> parse_lines_name(std::string_view name);

// The entries of a directory, fewest steps first, at equal steps in the order of kinds. Empty if there is no directory.
std::vector<StoreEntry> store_entries(FileSystem& files, const std::string& dir);

}  // namespace giro::detail
