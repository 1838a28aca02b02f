// How a run ends: with its results, or with an error that names the place.

#include <fmt/format.h>

#include <utility>

#include <giro/loop/loop_error.h>

#include "loop/run/run_engine.h"

namespace giro::detail {

void RunEngine::end(StopReason why) {
  has_ended_ = true;
  ended_ = why;
  after_stop_ = why == StopReason::stopped && !loop_.stop_iteration && elapsed_.steps > options_.elapsed.steps;
}

void RunEngine::finish() {
  if (std::exchange(is_finished_, true)) {
    throw Error(ErrorCode::invalid_argument, "finish: the run is already finished and has handed over its state");
  }
  const InterruptScope signals(options_.catch_signals, saves());
  try {
    if (!std::exchange(has_ended_, true)) run_last_after_all();
  } catch (...) {
    fail(std::current_exception());
  }
  if (const std::exception_ptr error = run_on_end()) {
    arbiter_->set_failed();
    raise(error, where());
  }
  leave();
  elapsed_.last = false;
}

// Runs the callbacks of last() after the latest step, for a run that is finished while paused or was interrupted.
void RunEngine::run_last_after_all() {
  if (!agenda_.awaits_end() || elapsed_.steps == options_.elapsed.steps) return;
  completed_ = elapsed_;
  between_steps_ = false;
  elapsed_.step_samples = elapsed_.samples - elapsed_.previous_samples;
  elapsed_.samples = elapsed_.previous_samples;
  elapsed_.date = elapsed_.previous_date;
  --elapsed_.steps;
  if (!is_saved_) loop_.batch_ = nullptr;
  run_last();
  pass_on_logs();
  elapsed_ = *std::exchange(completed_, std::nullopt);
  settle();
}

// Adds a signal that has come since the latest step to the result.
void RunEngine::leave() {
  if (has_own_arbiter_) return;
  try {
    const int signal = group_ ? group_->leave() : arbiter_->interrupt();
    if (signal_ == 0 && heeds_signals_) signal_ = signal;
  } catch (...) {
    raise(std::current_exception(), where());
  }
}

// Saves what it can, runs the on_end of all other callbacks, and throws.
void RunEngine::fail(const std::exception_ptr& cause) {
  bool whole = activity_ != Activity::loop;
  std::string also;
  // The step was complete, and only the next batch failed. This is the last chance to run what is due at the step's
  // end.
  if (activity_ == Activity::next_batch) {
    try {
      pass_on_logs();
    } catch (...) {
      also = "; what was due at the end of the previous step also failed: " +
             explain_exception(std::current_exception()).second;
      whole = false;
      drop_step();
    }
    elapsed_.count(elapsed_.step_samples);
  }
  const std::string place = where();
  if (completed_) elapsed_ = *std::exchange(completed_, std::nullopt);
  loop_.failed_between_steps =
      whole && running_ == nullptr && !is_launching_ && elapsed_.steps > options_.elapsed.steps;
  loop_.failed = true;
  arbiter_->set_failed();
  journal_.set_failing();
  if (journal_.showing() == nullptr && running() != nullptr) journal_.fail(running()->observer());
  journal_.forget_showing();
  loop_.logs.clear();
  journal_.drop_step();
  drop_step();
  try {
    bring_device();
  } catch (...) {
    // A second error usually comes from the same device and adds nothing.
    loop_.failed_between_steps = false;
  }
  drain(true);
  elapsed_.date = arbiter_->date();
  has_ended_ = is_finished_ = true;
  (void)run_on_end();
  raise(cause, place, also);
}

void RunEngine::raise(const std::exception_ptr& cause, std::string place, const std::string& also) {
  const auto [code, what] = explain_exception(cause);
  if (partitioner_ && partitioner_->size() > 1) {
    place = fmt::format("rank {} of {}, {}", partitioner_->rank(), partitioner_->size(), place);
  }
  elapsed_.last = false;
  state_.raise(code, place + ": " + what + also, cause);
}

void RunEngine::drop_step() {
  at_step_end_.clear();
  after_step_.clear();
  running_ = nullptr;
}

// What is running: "task 2, every(1000): giro::Checkpoint, at step 3000", or the activity if it is not a callback.
std::string RunEngine::where() const {
  const bool shows = journal_.showing_step() != Journal::kNoStep;
  const std::string step = fmt::format(", at step {}", shows ? journal_.showing_step() : elapsed_.steps);
  const Observer* const observer = shows ? journal_.showing() : running() != nullptr ? running()->observer() : nullptr;
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    const auto task = [&] { return fmt::format("task {}, {}: ", i + 1, to_string(agenda_.schedule(i))); };
    if (agenda_.evaluating() == i) return task() + "its schedule" + step;
    for (const AnyCallback& callback : tasks_[i].callbacks) {
      if (observer != nullptr && callback.observer() == observer) return task() + callback.name() + step;
    }
  }
  if (shows) return "the logs" + step;
  if (running() != nullptr) return "on_start or on_end: " + running()->name() + step;
  if (activity_ == Activity::loop) return "the loop" + step;
  return (activity_ == Activity::batch_size ? "batch_size_fn" : "the dataset") + step;
}

}  // namespace giro::detail
