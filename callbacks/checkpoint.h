#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include <giro/callbacks/monitor.h>
#include <giro/loop/callback.h>
#include <giro/loop/events.h>
#include <giro/loop/log/logs.h>
#include <giro/loop/time/elapsed.h>
#include <giro/runtime/file_system.h>
#include <giro/runtime/state.h>

namespace giro {

struct CheckpointOptions {
  std::int64_t keep = 1;  // how many of the newest stay; at least 1
  // Besides those, the first at or past each multiple of so many steps stays for good; 0: none.
  std::int64_t keep_every_n_steps = 0;
  // Whether a run may save where a later checkpoint is; that goes once the earlier one is durable.
  bool overwrite = false;
  // Save only where this entry of the logs, a name or "collection.name", is better than at any checkpoint in the
  // directory that was saved for it, of this run or of those before.
  std::string monitor = {};
  std::string mode = "min";  // or "max"
  // What becomes of a state that is not finite, but NaN or infinite somewhere, where one that is finite is saved:
  //   "skip"   it is not saved, which the stateful metric checkpoint_skipped (the completed steps) and report() tell
  //   "error"  Error(invalid_argument) naming the leaf
  //   "save"   it is saved like any other
  std::string not_finite = "skip";
  std::shared_ptr<FileSystem> files = posix_file_system();
};

// A callback that saves the state's saved collections to `<dir>/checkpoint_<completed steps>.safetensors`, the number
// in ten digits, with what Elapsed needs to go on from there in the metadata. Completed steps are those that the
// state's scalar "step" tells, so it may stand before or after the train step; without that leaf, elapsed.steps + 1,
// or in an on_end elapsed.steps. A file is there whole or not at all, and an older one goes only after the newer one
// is durable. Each checkpoint wants a directory of its own: what it keeps is counted over all of them that lie there.
// Where the run has gone back to an earlier state (early_stopping's restore_best), its later checkpoints go as well.
//
// A run that has diverged takes no good checkpoint with it, as where every(1'000) | last() is due in the step that
// terminate_on_nan stops, whichever of the two stands first: CheckpointOptions::not_finite decides. The copy on the
// host that is to be written is looked at, all of its leaves. While no finite state is saved, one that is not finite
// is, and gives way to the first that is.
//
// Errors: invalid_argument for keep < 1, keep_every_n_steps < 0, no directory, or an unknown mode or not_finite, naming
// the nearest. When it begins and whenever it saves: io; invalid_argument for a checkpoint of a later step than this
// run has come to that can be read, without overwrite, and for a state that has nothing to save, as after a move. With
// monitor: not_found, naming the nearest entry, if the entry was never logged; a loop that goes on from another waits
// for it.
class Checkpoint : public GenericCallback {
 public:
  static constexpr LoopEvent kEvent = LoopEvent::on_epoch_end;  // in the list `callbacks` of a train loop

  Checkpoint(std::string dir, CheckpointOptions options);

  template <class S, class B>
  void on_start(LoopState<S, B>& loop) {
    check_none_later(loop.elapsed, loop.state);
    if (monitor_) monitor_->begin(loop.elapsed);
  }
  template <class S, class B>
  void operator()(LoopState<S, B>& loop) {
    static_assert(std::is_base_of_v<State, S>, "giro: a checkpoint saves a State");
    const std::int64_t done = loop.elapsed.steps + (loop.has_batch() ? 1 : 0);
    std::optional<double> best;
    if (monitor_ && !(best = improvement(done, loop.state, loop.accumulated_logs()))) return;
    if (!save(loop.elapsed, done, loop.state, best)) {
      loop.logs.add_stateful_metric("checkpoint_skipped", done);
    } else if (best) {
      monitor_->update(*best);
    }
  }

  // For loops written by hand: saves, whatever is monitored. Whether it did, or skipped a state that is not finite.
  bool operator()(const Elapsed& elapsed, const State& state) const {
    return save(elapsed, elapsed.steps + 1, state, {});
  }

  // Why this or a copy of it has skipped a state, as in "step 120 is not saved: params/dense0/kernel is not finite":
  // the latest; empty: none was.
  const std::string& report() const noexcept { return *report_; }

 private:
  void check_none_later(const Elapsed& elapsed, const State& state) const;
  // The value that is monitored, if it is the best so far. `done` steps are completed, as the loop counts.
  std::optional<double> improvement(std::int64_t done, const State& state, const Logs& logs);
  // Whether it was saved.
  bool save(const Elapsed& elapsed, std::int64_t done, const State& state, std::optional<double> best) const;

  std::string dir_;
  CheckpointOptions options_;
  std::optional<Monitor> monitor_;
  bool best_is_read_ = false;  // of what lies in the directory
  std::shared_ptr<std::string> report_ = std::make_shared<std::string>();
};
Checkpoint checkpoint(const std::string& dir, const CheckpointOptions& options = {});

// Where a checkpoint was taken, in completed steps, samples and seconds: for LoopOptions::elapsed.
struct Restored : Elapsed {
  std::string path;                  // of the file
  std::vector<std::string> skipped;  // why newer ones were not taken, a line each, newest first
};

// Reads a checkpoint into a state of the same structure. `path` is a file, or a directory, whose newest checkpoint is
// taken that is not damaged. The state changes only if the whole file is good; collections that are not saved stay as
// they are. Errors: io, not_found, corrupt_data, unsupported, shape_mismatch, dtype_mismatch, each naming the file
// and, where there is one, the leaf; where every checkpoint is damaged, the newest's.
Restored restore(State& state, const std::string& path, FileSystem& files = *posix_file_system());

}  // namespace giro
