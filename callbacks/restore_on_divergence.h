#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include <giro/callbacks/monitor.h>
#include <giro/kernels/nn/partitioner.h>
#include <giro/loop/callback.h>
#include <giro/loop/interrupt.h>
#include <giro/loop/log/logs.h>
#include <giro/loop/time/elapsed.h>
#include <giro/runtime/error.h>
#include <giro/runtime/files/file_system.h>
#include <giro/runtime/handle.h>
#include <giro/runtime/state.h>

namespace giro {

struct RestoreOnDivergenceOptions {
  std::string monitor = "loss";  // an entry of the logs, a name or "collection.name"
  // A value above this many times the mean of recent ones has diverged, too; 0: only NaN and infinity have. In that
  // mean each value weighs 0.9 times as much as the one after it. For values that stay positive and are better if they
  // are lower.
  double spike = 0;
  double factor = 0.5;            // multiplies the learning rate at each restore
  std::int64_t max_restores = 3;  // the next divergence stops the loop
  std::shared_ptr<FileSystem> files = posix_file_system();
};

// A callback that goes back when the training diverges: it restores the state from the newest checkpoint of a finite
// state in `dir` and multiplies the state's leaf learning_rate_scale, which multiplies every rate of a TrainState's
// optimizer. After max_restores restores it stops the loop, as terminate_on_nan does.
//
//   {{giro::every(1), train_step},
//    {giro::every(100), giro::restore_on_divergence("logdir/model")},
//    {giro::every(1'000), giro::checkpoint("logdir/model", {.keep = 2})}}
//
// Only the state goes back, including its counters. The loop does not: the next step takes the next batch, so that the
// same batches do not follow in the same order, and the loop's steps, `stop` and the history continue.
//
// It reads the latest value logged since the loop began and since its latest restore. It sees the state, so it is a
// barrier. Run it in each step that is saved, so that a diverged state does not replace the checkpoints to restore. A
// state may be saved before its loss shows that it diverges. So if the run diverges again before a good value, it takes
// the next older checkpoint, if there is one. Checkpoints of later steps than this run's belong to another run and are
// left alone.
//
// Copies share its counts, and a checkpoint saves them: a resumed run restores as if it had not been interrupted. With
// several ranks, rank 0's value decides for all, and so does one of another rank that is not finite. All restore from
// the newest checkpoint that each of them can read, and have to see `dir`. In the step of a restore, the stateful
// metrics `restores` and `learning_rate_scale` are logged.
//
// Errors: invalid_argument for no directory or monitor, a spike that is neither 0 nor above 1, a factor outside (0, 1)
// or max_restores < 1; in the first step that logs the entry, for a spike if higher values are better. When called:
// not_found if there is nothing to restore, naming the value, and if the entry was never logged or the state has no
// learning_rate_scale, naming the nearest; unsupported for a state that is not a State; those of restore.
class RestoreOnDivergence : public GenericCallback {
 public:
  RestoreOnDivergence(std::string dir, RestoreOnDivergenceOptions options);

  void persist(Archive& archive);
  bool on_logged(const LogSchema& entries);

  template <class S, class B>
  void on_start(LoopState<S, B>& loop) {
    memory_->monitor.begin(loop.elapsed);
    if (loop.resumes) return;
    if (loop.elapsed.steps == 0) *memory_ = Memory{.monitor = memory_->monitor};
    memory_->first_record = loop.history.size();
  }
  template <class S, class B>
  void operator()(LoopState<S, B>& loop) {
    if (detail::may_be_interrupted()) return;  // an evaluation may have been cut short
    if constexpr (std::is_base_of_v<State, S>) {
      Logs all = logged(loop.history);
      all.merge(loop.logs);
      const std::shared_ptr<const Partitioner> ranks = partitioner_of(loop.state);
      if (!has_diverged(all, ranks.get())) return;
      if (memory_->restores == options_.max_restores) {
        loop.stop_iteration = true;
        loop.diverged = options_.monitor;
        report_stop(loop.elapsed);
        return;
      }
      loop.state.expect_one_tree(&loop.state, sizeof(S));
      loop.logs.merge(go_back(loop.state, loop.elapsed, ranks.get(), loop.saves.get()));
      memory_->first_record = loop.history.size() + 1;  // after the record of this step
    } else {
      throw Error(ErrorCode::unsupported, "restore_on_divergence: expected a State with a leaf learning_rate_scale");
    }
  }

  // Shared by all copies.
  std::int64_t restores() const noexcept { return memory_->restores; }
  // What it did last, as in "metrics.loss is nan at step 120: restored 'logdir/model/checkpoint_0000000100', ...", or
  // why it stopped the loop. Empty if there was nothing to do.
  const std::string& report() const noexcept { return memory_->report; }

 private:
  struct Memory {
    Monitor monitor;
    std::int64_t restores = 0;
    std::optional<double> mean = {};         // of the latest good values
    std::optional<std::int64_t> tried = {};  // the steps of the checkpoint restored last, until a value is good
    std::size_t first_record = 0;            // earlier records of the history are ignored
    double value = 0;                        // the latest; NaN if it is not finite on another rank
    int rank = 0;                            // whose value it is
    std::string report = {};
  };

  Logs logged(const History& history) const;
  bool has_diverged(const Logs& logs, const Partitioner* ranks);
  std::string divergence(const Elapsed& elapsed) const;  // for reports
  void report_stop(const Elapsed& elapsed);
  // Restores the state, and returns what to log.
  Logs go_back(State& state, const Elapsed& elapsed, const Partitioner* ranks, detail::RunCheckpoints* saves);
  std::vector<std::string> candidates(const Elapsed& elapsed) const;

  std::string dir_;
  RestoreOnDivergenceOptions options_;
  detail::Handle<Memory> memory_;
};

inline RestoreOnDivergence restore_on_divergence(const std::string& dir,
                                                 const RestoreOnDivergenceOptions& options = {}) {
  return {dir, options};
}

}  // namespace giro
