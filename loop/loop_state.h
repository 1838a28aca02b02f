#pragma once

#include <any>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <giro/kernels/nn/partitioner.h>
#include <giro/loop/log/history.h>
#include <giro/loop/log/logs.h>
#include <giro/loop/run_memory.h>
#include <giro/loop/time/elapsed.h>
#include <giro/runtime/error.h>

namespace giro {

namespace detail {
template <class S, class B>
class RunCore;
class RunSaves;
}  // namespace detail

// What a callback may see and change while a loop runs.
template <class S, class B>
class LoopState {
 public:
  LoopState(S& s, const Elapsed& start, const History& past, std::any& data, detail::RunMemory* run = nullptr)
      : state(s), elapsed(start), history(past), metadata(data), run_(run), first_record_(past.size()) {}

  S& state;
  const Elapsed& elapsed;  // at the beginning of this step
  const History& history;  // of the steps before this one
  std::any& metadata;      // the program's own: LoopOptions::metadata
  Logs logs;               // of this step so far
  bool stop_iteration = false;
  std::string diverged;  // with stop_iteration: an entry of the logs that is not finite, so the state is worth nothing
  bool resumes = false;  // whether the run goes on from wherever an earlier one of the program has come to (resume)
  bool failed = false;   // whether an error has ended the loop: on_end runs all the same
  bool failed_between_steps = false;  // and no step was under way, as where the dataset has failed

  // The batch of this step, of elapsed.step_samples samples. Error(invalid_argument) where there is none: in an on_end,
  // and in what last() brings after the last step where the batch is gone: of a dataset that can be passed over only
  // once, or of a run that is finished where it was held.
  const B& batch() const {
    if (batch_ == nullptr)
      throw Error(ErrorCode::invalid_argument, "there is no batch here: the last step is over, and its batch is gone");
    return *batch_;
  }
  void set_batch(const B* batch) noexcept { batch_ = batch; }
  bool has_batch() const noexcept { return batch_ != nullptr; }

  // The ranks that work on the state; null: this process alone.
  const Partitioner* partitioner() const noexcept { return partitioner_of(state).get(); }
  // Whether this is rank 0 of them, the one that prints and writes.
  bool is_primary() const noexcept { return partitioner() == nullptr || partitioner()->rank() == 0; }

  // Where this step leaves the run; between steps, as in on_start and on_end, where it is.
  Elapsed completed() const { return run().completed(); }
  // Runs `f` when every callback of this step has run, and the device has come to here; what it logs is of this step.
  // Between steps at once.
  void at_step_end(std::function<void()> f) const { run().at_step_end(std::move(f)); }
  // Runs `f` when this step is over, between it and the next: every callback has run, the device has come to here, and
  // what was logged is in the history and has been observed. Between steps at once. `first`: before those of callbacks
  // that do not ask for that.
  void after_step(std::function<void()> f, bool first = false) const { run().after_step(std::move(f), first); }
  // What the run remembers but for the leaves of a State: completed steps, the position in the dataset, the history,
  // and the memory of its schedules and callbacks. Written after a step (after_step), and read in on_resume: the run
  // then goes on as if there had been no interruption. Archive::report() tells what did not match. Errors: those of
  // Archive, corrupt_data, and invalid_argument if the dataset is not the one that the run was saved with.
  void persist(Archive& archive) const { run().persist(archive); }

  std::shared_ptr<detail::RunSaves> saves;  // what this run's checkpoints know of each other

  // The latest value of everything that was logged since the loop began.
  Logs accumulated_logs() const {
    Logs all = history.latest(first_record_);
    all.merge(logs);
    return all;
  }

 private:
  template <class, class>
  friend class detail::RunCore;

  detail::RunMemory& run() const {
    if (run_ == nullptr) throw Error(ErrorCode::invalid_argument, "there is no run here, but a LoopState alone");
    return *run_;
  }

  detail::RunMemory* run_;
  const B* batch_ = nullptr;
  std::size_t first_record_;
};

}  // namespace giro
