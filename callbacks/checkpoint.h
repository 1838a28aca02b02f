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
#include <giro/callbacks/restore.h>
#include <giro/kernels/nn/partitioner.h>
#include <giro/loop/callback.h>
#include <giro/loop/events.h>
#include <giro/loop/log/logs.h>
#include <giro/loop/time/elapsed.h>
#include <giro/runtime/checkpoint_store.h>
#include <giro/runtime/file_system.h>
#include <giro/runtime/snapshot.h>
#include <giro/runtime/state.h>

namespace giro {

struct CheckpointOptions {
  std::int64_t keep = 1;  // how many of the newest stay, or with `monitor` of the best; at least 1
  // Besides those, the first at or past each multiple of so many steps stays for good; 0: none.
  std::int64_t keep_every_n_steps = 0;
  // Whether a run may save where a later checkpoint is; that goes once the earlier one is durable.
  bool overwrite = false;
  // Save only where this entry of the logs, a name or "collection.name", is one of the `keep` best: better than at the
  // worst of so many checkpoints in the directory that were saved for it, of this run or of those before. The newest of
  // several is not the best: CheckpointStore::best tells which is.
  std::string monitor = {};
  std::string mode = "min";  // or "max"
  // What becomes of a state that is not finite, but NaN or infinite somewhere, where one that is finite is saved:
  //   "skip"   it is not saved, which the stateful metric checkpoint_skipped (the completed steps) and report() tell;
  //            the tenth in a row is an Error(invalid_argument) naming the leaf, for what trains there is lost
  //   "error"  Error(invalid_argument) naming the leaf
  //   "save"   it is saved like any other
  // The state of a run that terminate_on_nan has stopped is such a one, though each leaf may be finite still.
  std::string not_finite = "skip";
  // Whether the loop goes on as soon as the state is copied, while another thread writes it. An error of the writing
  // then comes at the next save, or when the loop ends.
  bool asynchronous = false;
  // What becomes of a save that has failed with Error(io), as where the disk is full:
  //   "fail"   the error ends the run
  //   "retry"  it is tried again after 1, 2 and 4 seconds
  //   "pause"  it is tried again every 10 seconds until it succeeds, or a signal interrupts the run
  // report() tells of each attempt that has failed. Only "fail" goes with `asynchronous`.
  std::string on_failure = "fail";
  std::shared_ptr<FileSystem> files = posix_file_system();
};

// A callback that saves the run after the step that it is due in: the state's saved collections, and what the run
// remembers besides (LoopState::persist), so that `resume` goes on from there to the bit. Each lies in a directory
// `<dir>/checkpoint_<completed steps>`, the number in ten digits (CheckpointStore). Completed steps are those that the
// state's scalar "step" tells; without that leaf, those of the loop. A checkpoint is there whole or not at all, and an
// older one goes only after the newer one is durable. Each run wants a directory of its own: what is kept is counted
// over all checkpoints that lie there, and a second process that saves there gets an error. Where the run has gone back
// to an earlier state (early_stopping's restore_best), its later checkpoints go as well. Checkpoints that a run finds
// ahead of the step that it goes on from, as where the best ones lie beside those that it was resumed from, are set
// aside until it has come to their steps again: nothing finds them, and report() tells their new names. The best ones
// that were there at the step that it is resumed from are still there. Where several ranks train,
// rank 0 saves; each its shard where they have shards of the state (zero_data_parallel), to one directory that all of
// them see.
//
// Whatever is due, a run is saved where a signal ends it, or an error between two steps, as of the dataset (but not of
// a state in shards, for the error may be one rank's alone); and after
// the step in which SIGUSR1 comes, from which it goes on: but not by a checkpoint with a monitor, which keeps the best.
// Within a loop that saves, evaluations are finished before a signal is heeded. A run that has diverged takes no good
// checkpoint with it: CheckpointOptions::not_finite decides. While no finite state is saved, one that is not finite is,
// and gives way to the first that is.
//
// Errors: invalid_argument for keep < 1, keep_every_n_steps < 0, no directory, or an unknown mode, not_finite or
// on_failure, naming the nearest. When it begins and whenever it saves: io, at the beginning also where there is no
// room for the checkpoints to be kept and one more; invalid_argument where another process saves in the directory; for
// a checkpoint of a later step in a run that goes on from none, without overwrite; for a state that has nothing to
// save, as after a move, or holds another state that is no part of its tree (State::attach); communication where a rank
// with a shard does not see the directory. With monitor: not_found, naming the nearest entry, if the entry was never
// logged; a loop that goes on from another waits for it.
class Checkpoint : public GenericCallback {
 public:
  static constexpr LoopEvent kEvent = LoopEvent::on_epoch_end;  // in the list `callbacks` of a train loop

  Checkpoint(std::string dir, CheckpointOptions options);

  template <class S, class B>
  void on_claim(LoopState<S, B>& loop) {
    static_assert(std::is_base_of_v<State, S>, "giro: a checkpoint saves a State");
    loop.state.expect_one_tree(&loop.state, sizeof(S));
    claim(loop.saves, partitioner_of(loop.state));
  }
  template <class S, class B>
  void on_start(LoopState<S, B>& loop) {
    if (takes_part(loop.partitioner())) begin(loop.elapsed, loop.state, loop.resumes);
  }
  template <class S, class B>
  void operator()(LoopState<S, B>& loop) {
    static_assert(std::is_base_of_v<State, S>, "giro: a checkpoint saves a State");
    if (!takes_part(loop.partitioner())) return;
    if (!store_) open_store(partitioner_of(loop.state));  // it is an on_start or an on_end itself
    const std::int64_t done = loop.elapsed.steps + (loop.has_batch() ? 1 : 0);
    std::optional<double> best;
    if (monitor_) {
      if (is_writer()) best = improvement(done, loop.state, loop.accumulated_logs());
      if (!writer_says(best.has_value())) return;
    }
    save_after_step(loop, best);
  }
  // Where a signal asks for it, or an error has come between two steps. Not of one that saves the best alone.
  bool saves() const noexcept { return !monitor_; }
  template <class S, class B>
  void on_save(LoopState<S, B>& loop) {
    // An error may be this rank's alone, and the others do not save then.
    const bool is_alone = loop.failed && ranks_ != nullptr;
    if (saves() && takes_part(loop.partitioner()) && !is_alone) save_after_step(loop, {});
  }
  template <class S, class B>
  void on_end(LoopState<S, B>& loop) {
    leave(loop.elapsed, loop.state, loop.is_primary() && !loop.failed);
  }
  // For loops written by hand: saves after the step at `elapsed`, whatever is monitored. Whether it did, or skipped a
  // state that is not finite; or has nothing to save, as where rank 0 saves what all ranks have. `best` is the value of
  // what is monitored, for the checkpoint to tell (CheckpointRecord); Error(invalid_argument) where nothing is.
  template <class S>
    requires std::is_base_of_v<State, S>
  bool operator()(const Elapsed& elapsed, const S& state, std::optional<double> best = {}) {
    const auto ranks = partitioner_of(state);
    if (!takes_part(ranks.get())) return false;
    expect_whole(state);
    state.expect_one_tree(&state, sizeof(S));
    if (!store_ || (ranks_ && ranks_ != ranks)) open_store(ranks);
    return save_at(elapsed, state, best);
  }

  // Why this or a copy of it has skipped a state, as in "step 120 is not saved: params/dense0/kernel is not finite", or
  // could not save it at first, or what it has set aside: the latest; empty: none was.
  const std::string& report() const noexcept { return *report_; }

 private:
  // What is to be saved; no snapshot: it is to be skipped.
  struct Saving {
    std::shared_ptr<Snapshot> snapshot;
    CheckpointRecord record;
    std::int64_t completed = 0;  // steps, as the loop counts
  };

  // Rank 0 saves, and every rank the shard that it has of the state.
  static bool takes_part(const Partitioner* ranks) {
    return ranks == nullptr || ranks->rank() == 0 || ranks->update_shard().count > 1;
  }
  bool is_writer() const { return ranks_ == nullptr || ranks_->rank() == 0; }
  // What rank 0 has decided, for all that save together.
  bool writer_says(bool yes) const;

  // Saves the state of the step's end, which callbacks after this one may change.
  template <class S, class B>
  void save_after_step(LoopState<S, B>& loop, std::optional<double> best) {
    loop.at_step_end([this, &loop, best] {
      Saving saving =
          take_snapshot(loop.completed(), loop.state, best, loop.stop_iteration ? loop.diverged : std::string());
      if (!saving.snapshot) {
        loop.logs.add_stateful_metric("checkpoint_skipped", saving.record.steps);
        return;
      }
      // A best one before those that the run may go on from, which would not come by it again.
      loop.after_step(
          [this, &loop, saving = std::move(saving)] {
            save(saving, [&loop](Archive& archive) { loop.persist(archive); });
          },
          monitor_.has_value());
    });
    if (!loop.has_batch()) wait();  // nobody may come by later
  }

  CheckpointStoreOptions store_options() const;
  void claim(std::shared_ptr<detail::RunSaves>& run, const std::shared_ptr<const Partitioner>& ranks);
  void leave(const Elapsed& elapsed, const State& state, bool prunes);
  void begin(const Elapsed& elapsed, const State& state, bool resumes);
  void open_store(const std::shared_ptr<const Partitioner>& ranks);
  bool save_at(const Elapsed& elapsed, const State& state, std::optional<double> best);
  // The value that is monitored, if it is one of the best so far. `done` steps are completed, as the loop counts.
  std::optional<double> improvement(std::int64_t done, const State& state, const Logs& logs);
  bool is_better(const CheckpointRecord& a, const CheckpointRecord& b) const;
  void take_for_best(const CheckpointRecord& record);
  void expect_whole(const State& state) const;
  // `diverged`: an entry of the logs that is not finite.
  Saving take_snapshot(const Elapsed& completed, const State& state, std::optional<double> best,
                       const std::string& diverged);
  void save(const Saving& saving, const std::function<void(Archive&)>& persist);
  void wait();
  static bool is_interrupted();
  CheckpointStore& store() { return *store_; }

  std::string dir_;
  CheckpointOptions options_;
  std::optional<Monitor> monitor_;
  std::optional<std::vector<CheckpointRecord>> best_;  // the best that are kept, once those that are there are read
  std::shared_ptr<detail::RunSaves> run_;              // that it saves; null: of a loop that is written by hand
  std::shared_ptr<const Partitioner> ranks_;           // that save together; null: this process alone
  int skipped_ = 0;                                    // states in a row that are not finite
  std::shared_ptr<CheckpointStore> store_;
  std::shared_ptr<Snapshot> snapshot_;
  std::shared_ptr<std::string> report_;
};
Checkpoint checkpoint(const std::string& dir, const CheckpointOptions& options = {});

// A checkpoint that also resumes: a program that is killed and started again goes on from its latest checkpoint, as if
// there had been no interruption, and begins where there is none.
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
