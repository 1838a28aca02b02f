#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <giro/runtime/files/checkpoint_store.h>
#include <giro/runtime/files/file_system.h>

namespace giro::detail {

// The checkpoints of one run. Whichever of them the run resumes from, it finds the best ones as they were then: a best
// one becomes durable before any that the run may resume from, and is removed only after a save past the step of a
// better one.
class RunCheckpoints {
 public:
  // Registers a directory that a Checkpoint of this run saves to: all of the run's saves, or only the best. `store` is
  // null on a rank that does not save.
  void add(const std::string& dir, const CheckpointStoreOptions& options, bool is_best,
           const std::shared_ptr<CheckpointStore>& store);
  // For the best: the options once it is known which values are better. Until then nothing is removed at the run's end.
  void set_best(const std::string& dir, const CheckpointStoreOptions& options);
  void begin(std::int64_t steps) { begin_ = steps; }

  // Call this when a save at `steps` completed steps to a directory begins.
  void set_saving(const std::string& dir, std::int64_t steps);
  // The steps the run may resume from, now or after the current save: CheckpointStoreOptions::resumable.
  std::vector<std::int64_t> resumable() const;
  // Waits until the saves in progress to a directory are durable. Errors: those of the saves.
  void wait(const std::string& dir);
  // The stores of the best checkpoints.
  std::vector<std::shared_ptr<CheckpointStore>> best_stores() const;
  // Call this when the run has ended after `steps` steps and all its saves are done. Removes what no run needs any
  // more, including what an earlier process of this run had left. Skips a directory in which a later run has saved.
  void prune(std::int64_t steps);

 private:
  struct Directory {
    std::string dir;
    CheckpointStoreOptions options;
    bool is_best;
    std::weak_ptr<CheckpointStore> store;
    std::int64_t saving = -1;
  };
  std::vector<Directory> directories_;
  std::int64_t begin_ = 0;
};

// A run's only store for a directory; for a null `run`, the one of loops written by hand. A run takes over the latter
// while no other run uses the directory.
std::shared_ptr<CheckpointStore> shared_store(const std::string& dir, const CheckpointStoreOptions& options,
                                              const RunCheckpoints* run);

}  // namespace giro::detail
