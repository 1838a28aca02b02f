#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <giro/runtime/archive.h>
#include <giro/runtime/file_system.h>
#include <giro/runtime/snapshot.h>
#include <giro/runtime/state.h>

namespace giro {

// What a checkpoint tells about itself: where the run was, in completed steps, samples and seconds since its start, and
// what the state is worth.
struct CheckpointRecord {
  std::int64_t steps = 0, samples = 0, previous_samples = 0;
  double time = 0, previous_time = 0;
  std::string not_finite = {};      // a leaf that has a NaN or an infinity in it, if there is one
  std::string monitor = {};         // the entry of the logs that it was saved for, if for one
  std::optional<double> best = {};  // its value

  void persist(Archive& archive);
};

// One that lies in a directory, by its manifest alone: its data have not been looked at.
struct StoredCheckpoint {
  std::string path;
  int version = 0;  // of the format; 1: a file of giro 0.1
  CheckpointRecord record;
};

// One in memory, whose checksums all fit.
struct LoadedCheckpoint {
  std::string path;
  int version = 0;
  CheckpointRecord record;
  std::vector<Leaf> leaves;           // on the host, by the paths they have in the state
  std::shared_ptr<const void> owner;  // keeps their memory alive
  Archive archive = Archive();        // to be read from
  // Why newer ones were not taken, newest first, then what of this one could not be read and is left out: a line each.
  std::vector<std::string> skipped = {};
};

// Reads a checkpoint: `path` is its directory, a file of version 0.1, or a directory of checkpoints, of which the
// newest is taken that is not damaged. All of it is in memory, once, and verified before this returns; where it is put
// together from shards, one of them at a time besides. A checkpoint or a file of one that is a symbolic link, which
// giro never makes, counts as damaged. Of a checkpoint that the caller names itself, and where none of a directory is
// whole, damaged lines cost themselves and those next to them, and lines that are not there, as of a checkpoint that
// was copied without them, are left out: `skipped` tells. Errors: not_found where there is none; where all are damaged
// the newest's corrupt_data, not_found or io, naming the file; unsupported for a version of the format that is newer
// than this, or a tensor that giro has no type for.
LoadedCheckpoint load_checkpoint(const std::string& path, FileSystem& files = *posix_file_system());

// Processes that save one state together, of which each holds a shard: each has a store for the same directory, and
// they make the same calls in the same order. Shard 0's is the directory's writer, which saves besides its shard all
// that is not sharded, and commits when all shards are there.
struct SaveGroup {
  Shard shard = {};
  double timeout = 600;  // seconds for which shard 0 waits for the others
};
// What a group calls one save, which shard 0 tells the others: no other save is called so.
std::string new_save_id();

struct CheckpointStoreOptions {
  std::int64_t keep = 1;  // how many of the newest stay; at least 1
  // Besides those, the first at or past each multiple of so many steps stays for good; 0: none.
  std::int64_t keep_every_n_steps = 0;
  // Of those that were saved for this entry of the logs the best stay instead, of equal ones the newer, and the latest.
  std::string monitor = {};
  std::string mode = "min";  // or "max"
  // Steps that a run may go on from, which other directories have: what would stay if each of them were the latest
  // stays, too.
  std::vector<std::int64_t> resumable = {};
  std::shared_ptr<FileSystem> files = posix_file_system();
  SaveGroup group = {};
};

// A directory of checkpoints, each a directory `checkpoint_<completed steps, ten digits>` of
//   state.safetensors    the state's saved leaves
//   memory.safetensors   the arrays of what the run remembers, if it has any
//   state-00001-of-00004.safetensors, memory-00001-of-00004.safetensors
//                        of a save group the same for each shard: its pieces, one axis each, and where they belong
//   checkpoint.json      the manifest: the record, what the run remembers, and the checksums of all files
// beside files of lines, `lines_<n>.jsonl`, which only grow and of which each checkpoint knows how much it refers to.
//
// A checkpoint is there whole or not at all, and durable when save() returns. Nothing is overwritten, and an older one
// goes only after the newer one is durable: so whatever fails or dies on the way, the newer or the older can be loaded.
//
// One process or group at a time writes to a directory. What dead processes of this host left unfinished is finished or
// removed at the first save; what others left there stays, as they may be alive.
//
// Errors of everything that writes: invalid_argument while another writes to the directory, naming its process; io
// naming the path. Not to be used from several threads at once; what was moved from is an Error(invalid_argument).
class CheckpointStore {
 public:
  // Touches nothing yet. Error(invalid_argument) for no directory, keep < 1, keep_every_n_steps < 0 or another mode.
  explicit CheckpointStore(std::string dir, CheckpointStoreOptions options = {});
  CheckpointStore(CheckpointStore&&) noexcept;
  CheckpointStore& operator=(CheckpointStore&&) noexcept;
  ~CheckpointStore();  // waits for a save that is under way; its error is wait()'s to tell

  const std::string& dir() const;
  // Who writes to the directory or was the last to, as in "process 123 on host"; empty: nobody yet.
  std::string writer() const;
  // What is kept from now on: the options but for files and group. Error(invalid_argument) as above.
  void set_keep(CheckpointStoreOptions options);
  // Another run saves from now on: its lines begin a new file.
  void begin_run();

  // What lies there, fewest steps first. `unreadable` gets a line for each that is named like a checkpoint and has no
  // manifest of this format or an older one; such are never removed.
  std::vector<StoredCheckpoint> all(std::vector<std::string>* unreadable = nullptr) const;
  std::optional<StoredCheckpoint> latest() const;
  // Its steps by its name alone, whether it can be read or not; -1 where there is none. Cheap.
  std::int64_t latest_steps() const;
  // The one with the least value ("min") or the greatest ("max") of those saved for an entry of the logs; of equal ones
  // the oldest, and none that is NaN. Error(invalid_argument) for another mode.
  std::optional<StoredCheckpoint> best(const std::string& monitor, const std::string& mode) const;
  LoadedCheckpoint load() const { return load_checkpoint(dir(), files()); }

  // Becomes the directory's one writer, until this goes; the first save does, otherwise. Makes the directory. In a
  // group shard 0 alone does; check_writable and prune do nothing, either, for the others.
  void acquire();
  // Error(io) naming the bytes needed and those free, unless there is room for as many checkpoints of this size as the
  // options keep and one more, less those that are there; or if a file cannot be written. Acquires the directory.
  void check_writable(std::int64_t bytes_per_checkpoint);

  // To be written to, for the next save: it leaves out the lines that this has saved before. Waits for the save that is
  // under way, and throws its error.
  Archive archive();
  // Saves a snapshot that the host can read, replacing a checkpoint of the same steps; then removes those that the
  // options do not keep, and those of later steps: the run has gone back. An error of the removal comes after the
  // checkpoint is durable. Errors: invalid_argument for a record with a negative or non-finite number, a memory of more
  // than 4 MiB of text, or an archive that is not the latest of archive(); device_mismatch for a snapshot on a device.
  // Pieces of leaves are for a group: Error(invalid_argument) for others. In a group it is a call of all, for the same
  // steps and under one `id`, that of new_save_id(), which begins when shard 0's save before is over: the pieces of the
  // snapshot and of the archive are saved by each, all else by shard 0, where Error(communication) names the shards
  // that do not come in time. The others return when theirs are durable. Whoever it has failed for may try again under
  // the same id.
  void save(const Snapshot& snapshot, const CheckpointRecord& record, Archive archive, const std::string& id = {});
  // The same on another thread, once what is under way in other stores is over; an error of theirs is one of this, too.
  // One at a time: a second waits for the first. An error comes up at the next call of save, save_async, archive or
  // wait.
  void save_async(std::shared_ptr<const Snapshot> snapshot, const CheckpointRecord& record, Archive archive,
                  const std::string& id = {}, const std::vector<std::shared_ptr<CheckpointStore>>& others = {});
  void wait();
  // Gives checkpoints of later steps other names, durably: nothing finds those, until a save that comes to their steps
  // removes them. For a run that goes on from `steps`, whichever earlier one has made them. Their paths from now on.
  std::vector<std::string> set_aside(std::int64_t steps);
  // Removes what the options do not keep. Waits, as archive().
  void prune();

 private:
  struct Impl;
  Impl& impl() const;
  FileSystem& files() const;

  std::shared_ptr<Impl> impl_;
};

}  // namespace giro
