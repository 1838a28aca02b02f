#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <giro/callbacks/monitor.h>
#include <giro/callbacks/resume.h>
#include <giro/kernels/nn/partitioner.h>
#include <giro/loop/callback.h>
#include <giro/loop/events.h>
#include <giro/loop/log/logs.h>
#include <giro/loop/time/elapsed.h>
#include <giro/runtime/files/checkpoint_store.h>
#include <giro/runtime/files/file_system.h>
#include <giro/runtime/snapshot.h>
#include <giro/runtime/state.h>

namespace giro {

struct CheckpointOptions {
  std::int64_t keep = 1;  // how many of the newest to keep, or of the best with `monitor`; at least 1
  // Also keeps the first checkpoint at or past each multiple of this many steps, for good; 0: none.
  std::int64_t keep_every_n_steps = 0;
  // Whether a run may save at an earlier step than an existing checkpoint, removed once the new one is durable.
  bool overwrite = false;
  // Saves only if this entry of the logs, a name or "collection.name", is one of the `keep` best values: better than
  // the worst of the `keep` best checkpoints saved for it in the directory, by this run or earlier ones. If several are
  // kept, the newest need not be the best: see CheckpointStore::best.
  std::string monitor = {};
  std::string mode = "auto";  // "min", "max", or "auto": as the entry itself says (Var::direction)
  // What to do with a state that contains NaN or infinity, if a checkpoint of a finite state exists:
  //   "skip"   do not save it, but log the stateful metric checkpoint_skipped (the completed steps) and set report().
  //            The tenth skip in a row is an Error(invalid_argument) naming the leaf: further training would be lost
  //   "error"  Error(invalid_argument) naming the leaf
  //   "save"   save it like any other
  // The state of a run that terminate_on_nan has stopped counts as not finite, even if every leaf is finite.
  std::string not_finite = "skip";
  // Whether the loop continues as soon as the state is copied, while another thread writes it. A write error is then
  // thrown by the next save, or when the loop ends.
  bool asynchronous = false;
  // What to do when a save fails with Error(io), for example because the disk is full:
  //   "fail"   the error ends the run
  //   "retry"  try again after 1, 2 and 4 seconds
  //   "pause"  try again every 10 seconds until it succeeds, or a signal interrupts the run
  // report() describes each failed attempt. With `asynchronous` only "fail" is allowed.
  std::string on_failure = "fail";
  std::shared_ptr<FileSystem> files = posix_file_system();
};

// A callback that saves the run after the step it is due in: the state's saved collections and everything else the run
// remembers (LoopState::persist), so that `resume` continues from there with the same bits. Each checkpoint is a
// directory `<dir>/checkpoint_<completed steps>`, with the number in ten digits (CheckpointStore). The completed steps
// are the state's scalar "step", or the loop's if the state has no such leaf.
//
// A checkpoint exists completely or not at all, and an older one is removed only after the newer one is durable. Give
// each run its own directory: `keep` counts all checkpoints in it, and a second process that saves there gets an error.
// If the run goes back to an earlier state (early_stopping's restore_best), its later checkpoints are removed.
//
// A resumed run may find checkpoints of steps past its own, for example the best ones if it was resumed from another
// directory. They are renamed, and report() lists the new names: nothing loads them, and they are removed once the run
// has saved at their steps again. The best checkpoints as of the step it resumes from are still there.
//
// With several ranks rank 0 saves, and its value of the monitor decides. If they hold shards of the state
// (zero_data_parallel), each rank saves its shard, to one directory that all ranks see.
//
// Without a monitor a run is also saved when a signal ends it, when an error occurs between two steps, for example in
// the dataset, and after a step in which SIGUSR1 arrives; the run then continues. After an error a sharded state is not
// saved, because the error may be on one rank only. In a loop that saves, an evaluation finishes before a signal takes
// effect. A run that diverges does not replace its good checkpoints: CheckpointOptions::not_finite. While no finite
// state is saved, one that is not finite is saved, and the first finite one replaces it.
//
// Errors of the constructor: invalid_argument for keep < 1, keep_every_n_steps < 0, no directory, or an unknown mode,
// not_finite or on_failure, naming the nearest. Errors when a loop begins and at each save:
//   io                when a loop begins, also if there is no room for the checkpoints to keep and one more
//   invalid_argument  if another process saves in the directory; if the run does not resume, `overwrite` is not set and
//                     there is a checkpoint of a later step; if the state has nothing to save, as after a move, or
//                     holds another state that is not part of its tree (State::attach); with a monitor, in the first
//                     step that logs the entry, if the mode is "auto" and it does not say which way it is better
//   communication     if a rank with a shard does not see the directory, or the ranks' directories differ
//   not_found         with a monitor, naming the nearest entry, if the entry was never logged. A loop that continues
//                     another one waits for it instead
class Checkpoint : public GenericCallback {
 public:
  static constexpr LoopEvent kEvent = LoopEvent::on_epoch_end;  // in the list `callbacks` of a train loop

  Checkpoint(std::string dir, CheckpointOptions options);

  template <class S, class B>
  void on_claim(LoopState<S, B>& loop) {
    static_assert(std::is_base_of_v<State, S>, "giro: a checkpoint can only save a State");
    loop.state.expect_one_tree(&loop.state, sizeof(S));
    claim(loop.saves, partitioner_of(loop.state));
  }
  template <class S, class B>
  void on_start(LoopState<S, B>& loop) {
    if (takes_part(loop.partitioner())) begin(loop.elapsed, loop.state, loop.resumes);
  }
  template <class S, class B>
  void operator()(LoopState<S, B>& loop) {
    static_assert(std::is_base_of_v<State, S>, "giro: a checkpoint can only save a State");
    if (!takes_part(loop.partitioner())) return;
    if (!store_) open_store(partitioner_of(loop.state));  // this is itself an on_start or on_end callback
    const std::int64_t done = loop.elapsed.steps + (loop.has_batch() ? 1 : 0);
    std::optional<double> best;
    if (monitor_) {
      const std::optional<double> value = monitor_->value(loop.accumulated_logs(), ranks_.get());
      if (!value || !is_improvement(*value, done, loop.state)) return;
      best = value;
    }
    save_after_step(loop, best);
  }
  bool on_logged(const LogSchema& entries);
  // Whether it also saves on a signal or after an error between two steps. Not if it saves only the best.
  bool saves() const noexcept { return !monitor_; }
  template <class S, class B>
  void on_save(LoopState<S, B>& loop) {
    // The error may be on this rank only; then the others do not save.
    const bool is_alone = loop.failed && ranks_ != nullptr;
    if (saves() && takes_part(loop.partitioner()) && !is_alone) save_after_step(loop, {});
  }
  template <class S, class B>
  void on_end(LoopState<S, B>& loop) {
    finish(loop.elapsed, loop.state, loop.is_primary() && !loop.failed);
  }
  // For loops written by hand: saves after the step at `elapsed`, regardless of the monitor. Returns false if it skips
  // a state that is not finite, or if this rank has nothing to save because rank 0 saves. `best` is the monitored
  // value, to store in the checkpoint (CheckpointRecord); Error(invalid_argument) if there is no monitor, or its mode
  // is not known. `memory` writes what the program remembers, such as an early_stopping, for restore() to read.
  template <class S>
    requires std::is_base_of_v<State, S>
  bool operator()(const Elapsed& elapsed, const S& state, std::optional<double> best = {},
                  const std::function<void(Archive&)>& memory = {}) {
    const auto ranks = partitioner_of(state);
    if (!takes_part(ranks.get())) return false;
    expect_whole(state);
    state.expect_one_tree(&state, sizeof(S));
    if (!store_ || (ranks_ && ranks_ != ranks)) open_store(ranks);
    return save_at(elapsed, state, best, memory);
  }

  // The latest message of this or a copy of it: a skipped state, as in "step 120 is not saved: params/dense0/kernel is
  // not finite", a failed attempt to save, or checkpoints that were set aside. Empty if there was none.
  const std::string& report() const noexcept { return *report_; }

 private:
  // What to save. No snapshot: skip it.
  struct Saving {
    std::shared_ptr<Snapshot> snapshot;
    CheckpointRecord record;
    std::int64_t completed = 0;  // steps, as the loop counts them
  };

  // Rank 0 saves, and so does each rank that holds a shard of the state.
  static bool takes_part(const Partitioner* ranks) {
    return ranks == nullptr || ranks->rank() == 0 || ranks->update_shard().count > 1;
  }
  bool is_writer() const { return ranks_ == nullptr || ranks_->rank() == 0; }
  // Rank 0's decision, on all ranks that save together.
  bool decide(const std::function<bool()>& decision) const;

  // Saves the state at the end of the step, because later callbacks may still change it.
  template <class S, class B>
  void save_after_step(LoopState<S, B>& loop, std::optional<double> best) {
    loop.at_step_end([this, &loop, best] {
      Saving saving =
          take_snapshot(loop.completed(), loop.state, best, loop.stop_iteration ? loop.diverged : std::string());
      if (!saving.snapshot) {
        loop.logs.add_stateful_metric("checkpoint_skipped", saving.record.steps);
        return;
      }
      // The best ones are saved before those that the run may resume from: a resumed run starts after this step.
      loop.after_step(
          [this, &loop, saving = std::move(saving)] {
            save(saving, "run", [&loop](Archive& archive) { loop.persist(archive); });
          },
          monitor_.has_value());
    });
    if (!loop.has_batch()) wait();  // there may be no later call that waits
  }

  CheckpointStoreOptions store_options() const;
  void claim(std::shared_ptr<detail::RunCheckpoints>& run, const std::shared_ptr<const Partitioner>& ranks);
  void finish(const Elapsed& elapsed, const State& state, bool prunes);
  void begin(const Elapsed& elapsed, const State& state, bool resumes);
  void open_store(const std::shared_ptr<const Partitioner>& ranks);
  bool save_at(const Elapsed& elapsed, const State& state, std::optional<double> best,
               const std::function<void(Archive&)>& memory);
  // Whether the monitored value is one of the best so far. `done`: completed steps, as the loop counts them.
  bool is_improvement(double value, std::int64_t done, const State& state);
  bool is_better(const CheckpointRecord& a, const CheckpointRecord& b) const;
  void add_to_best(const CheckpointRecord& record);
  void expect_whole(const State& state) const;
  // `diverged`: an entry of the logs that is not finite, or "".
  Saving take_snapshot(const Elapsed& completed, const State& state, std::optional<double> best,
                       const std::string& diverged);
  // Saves what `persist` writes under this name.
  void save(const Saving& saving, const char* name, const std::function<void(Archive&)>& persist);
  void wait();
  CheckpointStore& store() { return *store_; }

  std::string dir_;
  CheckpointOptions options_;
  std::optional<Monitor> monitor_;
  std::optional<std::vector<CheckpointRecord>> best_;  // the best that are kept; set once the directory was read
  std::shared_ptr<detail::RunCheckpoints> run_;        // the run that it saves; null in a loop written by hand
  std::shared_ptr<const Partitioner> ranks_;           // the ranks that save together; null: this process alone
  int skipped_ = 0;                                    // states skipped in a row
  std::shared_ptr<CheckpointStore> store_;
  std::shared_ptr<Snapshot> snapshot_;
  detail::Handle<std::string> report_;
};
Checkpoint checkpoint(const std::string& dir, const CheckpointOptions& options = {});

// A checkpoint that also resumes: a program that is killed and started again continues from its latest checkpoint as if
// there had been no interruption. Without a checkpoint it starts from the beginning.
//
//   {giro::every(1'000) | giro::last(), giro::backup_and_restore(logdir + "/model")}
class BackupAndRestore : public Checkpoint {
 public:
  BackupAndRestore(const std::string& dir, const CheckpointOptions& options)
      : Checkpoint(dir, options), resume_(dir, options.files) {}

  template <class S, class B>
  void on_resume(LoopState<S, B>& loop) {
    resume_.on_resume(loop);
  }
  const Restored& restored() const noexcept { return resume_.restored(); }

 private:
  Resume resume_;
};
inline BackupAndRestore backup_and_restore(const std::string& dir, const CheckpointOptions& options = {}) {
  return {dir, options};
}

}  // namespace giro
