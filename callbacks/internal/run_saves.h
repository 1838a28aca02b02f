#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <giro/runtime/checkpoint_store.h>
#include <giro/runtime/file_system.h>

namespace giro::detail {

// The checkpoints of one run. Whichever of them it is resumed from, it finds the best ones as they were there: a best
// one becomes durable before any that the run goes on from, and goes after one that has passed the step of a better.
class RunSaves {
 public:
  // A checkpoint of this run writes to a directory: all that it is saved in, or the best alone (options.monitor).
  void add(const std::string& dir, const CheckpointStoreOptions& options);
  void begin(std::int64_t steps) { begin_ = steps; }
  // The one store of this run for a directory.
  std::shared_ptr<CheckpointStore> store(const std::string& dir, const CheckpointStoreOptions& options);

  // A save of so many steps to a directory begins.
  void set_saving(const std::string& dir, std::int64_t steps);
  // The steps that it may be resumed at, now or once what is under way is over: CheckpointStoreOptions::resumable.
  std::vector<std::int64_t> resumable() const;
  // Where the best are saved.
  std::vector<std::shared_ptr<CheckpointStore>> best_stores() const;
  // Once all that was due until the run's end, after so many steps, is saved: removes what nothing goes back to any
  // more, also where the run was over when it was resumed, and an earlier process had not come to that. Not where a run
  // after this one has saved.
  void prune(std::int64_t steps);

 private:
  struct Place {
    std::string dir;
    CheckpointStoreOptions options;
    std::weak_ptr<CheckpointStore> store = {};
    std::int64_t saving = -1;
  };
  std::vector<Place> places_;
  std::int64_t begin_ = 0;
};

// The one store of a run for a directory; of what is saved by hand, where `run` is null. A run takes over the store of
// what is saved there by hand, while no other run has it.
std::shared_ptr<CheckpointStore> shared_store(const std::string& dir, const CheckpointStoreOptions& options,
                                              const RunSaves* run);

}  // namespace giro::detail
