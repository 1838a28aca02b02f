#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <giro/runtime/files/archive.h>
#include <giro/runtime/files/file_system.h>
#include <giro/runtime/snapshot.h>
#include <giro/runtime/state.h>

namespace giro {

// A checkpoint's description: the run's position in completed steps, samples and seconds since its start, and the
// quality of the state.
struct CheckpointRecord {
  std::int64_t steps = 0, samples = 0, previous_samples = 0;
  double time = 0, previous_time = 0;
  std::string not_finite = {};      // a leaf that holds a NaN or an infinity, if any
  std::string monitor = {};         // the log entry it was saved for, if any
  std::optional<double> best = {};  // its value

  void persist(Archive& archive);
};

// A checkpoint in a directory, as its manifest describes it: its data has not been read.
struct StoredCheckpoint {
  std::string path;
  int version = 0;  // of the format
  CheckpointRecord record;
};

// A checkpoint in memory, with all checksums verified.
struct LoadedCheckpoint {
  std::string path;
  int version = 0;
  CheckpointRecord record;
  std::vector<Leaf> leaves;           // on the host, with their paths in the state
  std::shared_ptr<const void> owner;  // keeps their memory alive
  Archive archive = Archive();        // for reading
  // One line each: why newer checkpoints were skipped, newest first, then what was left out of this one because it
  // could not be read.
  std::vector<std::string> skipped = {};
};

// Reads a checkpoint. `path` is its directory, or a directory of checkpoints, from which the newest undamaged one is
// taken. All of it is in memory, in one copy, and verified before this returns. A checkpoint
// that is a symbolic link, or contains one, counts as damaged: giro never creates any. If the caller names the
// checkpoint itself, or if no checkpoint of a directory is intact, damaged lines and their neighbours are left out, and
// so are missing lines, e.g. of a checkpoint copied without them; `skipped` reports this. Errors: not_found if there is
// none; if all are damaged, the newest one's corrupt_data, not_found or io, naming the file; unsupported for a newer
// version of the format, or a tensor of a dtype that giro does not have.
LoadedCheckpoint load_checkpoint(const std::string& path, FileSystem& files = *posix_file_system());

// Processes that save one state together, each holding one shard of it. Each has a store for the same directory, and
// they make the same calls in the same order. Shard 0 is the directory's writer: it also saves everything that is not
// sharded, and commits when all shards are there.
struct SaveGroup {
  Shard shard = {};
  double timeout = 600;  // seconds that shard 0 waits for the others
};
// A unique id for one save of a group, which shard 0 sends to the others.
std::string new_save_id();

struct CheckpointStoreOptions {
  std::int64_t keep = 1;  // the number of newest checkpoints to keep; at least 1
  // In addition, the first checkpoint at or past each multiple of this many steps is kept for good; 0: none.
  std::int64_t keep_every_n_steps = 0;
  // If set, the best checkpoints saved for this log entry are kept instead of the newest; ties go to the newer one. The
  // latest is kept as well.
  std::string monitor = {};
  std::string mode = {};  // "min" or "max", with a monitor
  // Steps that a run may resume from, with checkpoints in other directories. Checkpoints that would be kept if one of
  // these were the latest step are kept as well.
  std::vector<std::int64_t> resumable = {};
  std::shared_ptr<FileSystem> files = posix_file_system();
  SaveGroup group = {};
};

// A directory of checkpoints. Each is a directory `checkpoint_<completed steps, ten digits>` with
//   state.safetensors    the state's saved leaves
//   memory.safetensors   the arrays that the run remembers, if any
//   state-00001-of-00004.safetensors, memory-00001-of-00004.safetensors
//                        in a save group, the same for each shard: its pieces, flattened, and where they belong
//   checkpoint.json      the manifest: the record, other values the run remembers, and the checksums of all files
// Append-only files of lines, `lines_<n>.jsonl`, lie next to them; each checkpoint records how much of them it uses.
//
// A checkpoint exists whole or not at all, and is durable when save() returns. Nothing is overwritten, and an older
// checkpoint is removed only after the newer one is durable: whatever fails in between, one of the two can be loaded.
//
// One process or group at a time writes to a directory. The first save finishes or removes unfinished checkpoints left
// by dead processes of this host. Those of other hosts stay, since their processes may be alive.
//
// Errors of all calls that write: invalid_argument while another process writes to the directory, naming it; io naming
// the path. The destructor waits for a save in progress, and drops its error. Not thread-safe. Using a moved-from store
// is an Error(invalid_argument).
class CheckpointStore {
 public:
  // Touches nothing yet. Error(invalid_argument) for an empty `dir`, keep < 1, keep_every_n_steps < 0, or a monitor
  // with an unknown mode or none.
  explicit CheckpointStore(std::string dir, CheckpointStoreOptions options = {});
  CheckpointStore(CheckpointStore&&) noexcept = default;
  CheckpointStore& operator=(CheckpointStore&&) noexcept = default;

  const std::string& dir() const;
  // The process that writes to the directory or was the last to, e.g. "process 123 on host"; empty if there was none.
  std::string writer() const;
  // Changes which checkpoints are kept from now on: replaces all options but files and group. Error(invalid_argument)
  // as above.
  void set_keep(CheckpointStoreOptions options);
  // Call before another run saves to this store: its lines go to new files.
  void begin_run();

  // The stored checkpoints, fewest steps first. `unreadable` gets a line for each entry that has a checkpoint's name
  // but no manifest of this format or an older one; such entries are never removed.
  std::vector<StoredCheckpoint> all(std::vector<std::string>* unreadable = nullptr) const;
  std::optional<StoredCheckpoint> latest() const;
  // The steps of the latest, from its name alone, readable or not; -1 if there is none. Cheap.
  std::int64_t latest_steps() const;
  // The checkpoint with the smallest ("min") or largest ("max") value among those saved for a log entry: the oldest of
  // equal ones, never one with NaN. Error(invalid_argument) for another mode.
  std::optional<StoredCheckpoint> best(const std::string& monitor, const std::string& mode) const;
  LoadedCheckpoint load() const { return load_checkpoint(dir(), files()); }

  // Becomes the directory's only writer for the lifetime of this store; otherwise the first save does so. Creates the
  // directory. In a group only shard 0 does this, and check_writable and prune do nothing for the other shards either.
  void acquire();
  // Error(io), naming the bytes needed and free, unless there is room for as many checkpoints of this size as the
  // options keep, plus one, minus the existing ones; also if a file cannot be written. Acquires the directory.
  void check_writable(std::int64_t bytes_per_checkpoint);

  // An archive to write to for the next save; it leaves out the lines that this store has saved already. Waits for a
  // save in progress, and throws its error.
  Archive archive();
  // Saves a snapshot that the host can read, replacing a checkpoint of the same steps. Then removes the checkpoints
  // that the options do not keep, and those of later steps, because the run has returned to an earlier one. An error
  // during removal is thrown only after the checkpoint is durable. Errors: invalid_argument for a record with a
  // negative or non-finite number, an archive with more than 4 MiB of text, or that is not the latest from archive();
  // device_mismatch for a snapshot outside host memory. Pieces of leaves require a group: Error(invalid_argument)
  // without one. In a group all processes call it for the same steps and with the same `id`, from new_save_id(), once
  // shard 0's previous save has finished. Each process saves its pieces of the snapshot and of the archive, and shard 0
  // everything else; shard 0 throws Error(communication) naming the shards that do not arrive in time. The others
  // return when their pieces are durable. A process whose save failed may retry with the same id.
  void save(const Snapshot& snapshot, const CheckpointRecord& record, Archive archive, const std::string& id = {});
  // The same on another thread, once the saves in progress in `others` have finished; this save also reports their
  // errors. One at a time: a second waits for the first. The next call of save, save_async, archive or wait throws any
  // error of the save.
  void save_async(std::shared_ptr<const Snapshot> snapshot, const CheckpointRecord& record, Archive archive,
                  const std::string& id = {}, const std::vector<std::shared_ptr<CheckpointStore>>& others = {});
  void wait();
  // Durably renames checkpoints of later steps, so that nothing finds them; a save that reaches their steps removes
  // them. For a run that continues from `steps` when an earlier run has made later checkpoints. Returns their new
  // paths.
  std::vector<std::string> set_aside(std::int64_t steps);
  // Removes the checkpoints that the options do not keep. Waits like archive().
  void prune();

 private:
  struct Impl;
  Impl& impl() const;
  FileSystem& files() const;

  std::shared_ptr<Impl> impl_;
};

}  // namespace giro
