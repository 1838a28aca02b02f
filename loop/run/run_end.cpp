// How a run ends: with its results, or with an error that names the place.

#include <fmt/format.h>

#include <new>
#include <utility>

#include <giro/loop/loop_error.h>

#include "loop/run/run_engine.h"
#include "runtime/throw_error.h"

namespace giro {

std::shared_ptr<detail::RunResults> LoopError::keep(const Elapsed& elapsed, History history, Outputs outputs,
                                                    std::any metadata) {
  return std::make_shared<detail::RunResults>(
      detail::RunResults{std::move(history), elapsed, std::move(outputs), std::move(metadata)});
}

namespace detail {

std::pair<ErrorCode, std::string> explain_exception(const std::exception_ptr& cause) {
  try {
    std::rethrow_exception(cause);
  } catch (const Error& error) {
    return {error.code(), error.what()};
  } catch (const std::bad_alloc&) {
    return {ErrorCode::out_of_memory, "the host is out of memory"};
  } catch (const std::exception& error) {
    return {ErrorCode::callback, error.what()};
  } catch (...) {
    return {ErrorCode::callback, "an exception of unknown type"};
  }
}

void RunEngine::finish() {
  const Call call(*this, "finish");
  if (std::exchange(is_finished_, true)) {
    throw_invalid("finish: the run is already finished and has handed over its state");
  }
  const InterruptScope signals(options_.catch_signals, saves_);
  try {
    if (results.ended == StopReason::reached) run_last_after_all();
  } catch (...) {
    fail(std::current_exception());
  }
  if (const std::exception_ptr error = run_on_end()) {
    arbiter_->set_failed();
    raise(error, where());
  }
  if (!options_.arbiter) {
    // Adds a signal that has come since the latest step to the result.
    try {
      const int signal = group_ ? group_->leave() : arbiter_->interrupt();
      if (results.interrupted == 0 && heeds_signals_) results.interrupted = signal;
    } catch (...) {
      raise(std::current_exception(), where());
    }
  }
  elapsed_.last = false;
}

void RunEngine::settle() {
  bring_device();
  elapsed_.date = clock_.now();
}

// Runs the callbacks of last() after the latest step, for a run that is finished while paused or was interrupted.
void RunEngine::run_last_after_all() {
  if (!agenda_.awaits_end() || elapsed_.steps == first_step_) return;
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

// Runs every on_end, except those of callbacks that have failed. If an error came between two steps, runs every on_save
// first. Returns the first exception.
std::exception_ptr RunEngine::run_on_end() {
  between_steps_ = true;
  loop_.batch_ = nullptr;
  elapsed_.step_samples = 0;
  elapsed_.last = false;
  std::exception_ptr error;
  Current first;
  const auto run = [&](CallbackModel* callback, const char* name, Hook hook) {
    if (callback->failed) return;
    try {
      run_hook(callback, name, hook);
    } catch (...) {
      loop_.failed = true;
      if (!error) first = current_;
      if (!error) error = std::current_exception();
    }
  };
  if (loop_.failed_between_steps) {
    for (CallbackModel* c : callbacks_) run(c, "::on_save", &CallbackModel::on_save);
  }
  for (CallbackModel* c : callbacks_) run(c, "::on_end", &CallbackModel::on_end);
  for (AnyCallback& c : options_.on_end) run(c.get(), "::on_end", &CallbackModel::run);
  current_ = first;
  return error;
}

// Saves what it can, runs the on_end of all other callbacks, and throws.
void RunEngine::fail(const std::exception_ptr& cause) {
  using Activity = Cursor::Activity;
  bool whole = dataset_.activity != Activity::none;
  std::string also;
  // The step was complete, and only the next batch failed. This is the last chance to run what is due at the step's
  // end.
  if (dataset_.activity == Activity::next_batch && !between_steps_) {
    try {
      pass_on_logs();
    } catch (...) {
      also = "; what was due at the end of the previous step also failed: " +
             explain_exception(std::current_exception()).second;
      whole = false;
      current_ = {};
    }
    elapsed_.count(elapsed_.step_samples);
  }
  const std::string place = where();
  if (completed_) elapsed_ = *std::exchange(completed_, std::nullopt);
  loop_.failed_between_steps = whole && elapsed_.steps > first_step_;
  loop_.failed = true;
  arbiter_->set_failed();
  journal_.set_failing();
  if (current_.callback != nullptr) current_.callback->failed = true;
  current_ = {};
  // The step is dropped.
  loop_.logs.clear();
  journal_.drop_step();
  at_step_end_.clear();
  after_step_.clear();
  try {
    bring_device();
  } catch (...) {
    // A second error usually comes from the same device and adds nothing.
    loop_.failed_between_steps = false;
  }
  drain(true);
  elapsed_.date = arbiter_->date();
  is_finished_ = true;
  (void)run_on_end();
  raise(cause, place, also);
}

void RunEngine::raise(const std::exception_ptr& cause, std::string place, const std::string& also) {
  const auto [code, what] = explain_exception(cause);
  if (partitioner_) place = fmt::format("rank {} of {}, {}", partitioner_->rank(), partitioner_->size(), place);
  elapsed_.last = false;
  state_.raise(code, place + ": " + what + also, cause);
}

// What is running: "task 2, every(1000): giro::Checkpoint, at step 3000", or what the dataset does if it is not a
// callback.
std::string RunEngine::where() const {
  const bool runs = current_.step != Current::kNoStep;
  const std::string step = fmt::format(", at step {}", runs ? current_.step : elapsed_.steps);
  for (const Agenda::Task& task : agenda_.tasks()) {
    const auto name = [&] {
      return fmt::format("task {}, {}: ", &task - agenda_.tasks().data() + 1, to_string(task.schedule));
    };
    if (agenda_.evaluating() == &task) return name() + "its schedule" + step;
    for (const AnyCallback& callback : task.callbacks) {
      if (callback.get() == current_.callback) return name() + callback->name() + step;
    }
  }
  if (current_.callback != nullptr) return "on_start or on_end: " + current_.callback->name() + step;
  if (runs) return "the logs" + step;
  switch (dataset_.activity) {
    case Cursor::Activity::none:
      return "the loop" + step;
    case Cursor::Activity::batch_size:
      return "batch_size_fn" + step;
    default:
      return "the dataset" + step;
  }
}

}  // namespace detail
}  // namespace giro
