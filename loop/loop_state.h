#pragma once

#include <any>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include <giro/kernels/nn/partitioner.h>
#include <giro/loop/log/history.h>
#include <giro/loop/log/logs.h>
#include <giro/loop/time/elapsed.h>
#include <giro/runtime/error.h>

namespace giro {

class Archive;

namespace detail {

class Engine;
class RunEngine;
class RunCheckpoints;

// What a LoopState has whatever the types of its state and batch.
class AnyLoopState {
 public:
  AnyLoopState(const Elapsed& start, const History& past, std::any& data, Engine* run)
      : elapsed(start), history(past), metadata(data), run_(run), first_record_(past.size()) {}

  const Elapsed& elapsed;  // at the beginning of this step
  const History& history;  // of the steps before this one
  std::any& metadata;      // the program's own: LoopOptions::metadata
  Logs logs;               // of this step so far
  bool stop_iteration = false;
  std::string diverged;  // with stop_iteration: a log entry that is not finite, which makes the state useless
  bool resumes = false;  // whether the run continues from where an earlier run of the program stopped (resume)
  bool failed = false;   // whether an error has ended the loop; on_end runs nevertheless
  bool failed_between_steps = false;  // whether the error came between steps, for example from the dataset

  bool has_batch() const noexcept { return batch_ != nullptr; }

  // The Elapsed after this step. Between steps, as in on_start and on_end, the current one.
  Elapsed completed() const;
  // Runs `f` after all callbacks of this step have run and the device has finished it; its logs belong to this step.
  // Between steps, runs it at once.
  void at_step_end(std::function<void()> f) const;
  // Runs `f` between this step and the next: all callbacks have run, the device has finished the step, and its logs are
  // in the history and have been observed. Between steps, runs it at once. `first`: before functions that were added
  // without it.
  void after_step(std::function<void()> f, bool first = false) const;
  // Saves or restores what the run remembers, except the leaves of a State: completed steps, the position in the
  // dataset, the history, and the memory of its schedules and callbacks. Write it after a step (after_step) and read it
  // in on_resume; the run then continues as if it had not been interrupted. Archive::report() lists what did not match.
  // Errors: those of Archive, corrupt_data, and invalid_argument if the run was saved with another dataset.
  void persist(Archive& archive) const;

  std::shared_ptr<RunCheckpoints> saves;  // shared by this run's checkpoints

  // The latest value of everything that was logged since the loop began.
  Logs accumulated_logs() const {
    Logs all = history.latest(first_record_);
    all.merge(logs);
    return all;
  }

 protected:
  const void* batch_ = nullptr;

 private:
  friend class RunEngine;

  Engine& run() const;

  Engine* run_;
  std::size_t first_record_;
};

}  // namespace detail

// What a callback may see and change while a loop runs.
template <class S, class B>
class LoopState : public detail::AnyLoopState {
 public:
  LoopState(S& s, const Elapsed& start, const History& past, std::any& data, detail::Engine* run = nullptr)
      : AnyLoopState(start, past, data, run), state(s) {}

  S& state;

  // The batch of this step, with elapsed.step_samples samples. Error(invalid_argument) if there is none: in on_end, and
  // in callbacks of last() that run after the last step when its batch is gone. That happens with a single-pass
  // dataset, and with a run that is finished while paused.
  const B& batch() const {
    if (batch_ == nullptr)
      throw Error(ErrorCode::invalid_argument,
                  "there is no batch here: the last step is over and its batch was released");
    return *static_cast<const B*>(batch_);
  }
  void set_batch(const B* batch) noexcept { batch_ = batch; }

  // The ranks that work on the state; null if only this process does.
  const Partitioner* partitioner() const noexcept { return partitioner_of(state).get(); }
  // Whether this is rank 0, the rank that prints and writes.
  bool is_primary() const noexcept { return partitioner() == nullptr || partitioner()->rank() == 0; }
};

}  // namespace giro
