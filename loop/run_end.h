#pragma once

// How a run ends: with its result, or with an error that names the place.

#include <exception>
#include <string>
#include <utility>

#include <giro/loop/run_core.h>

namespace giro::detail {

template <class S, class B>
LoopResult<S> RunCore<S, B>::finish() {
  if (std::exchange(finished_, true)) {
    throw Error(ErrorCode::invalid_argument, "finish: the run is already finished and has handed over its state");
  }
  const InterruptScope signals(run().options.catch_signals, saves());
  try {
    if (!std::exchange(over_, true)) run_last_after_all();
  } catch (...) {
    fail(std::current_exception());
  }
  if (const std::exception_ptr error = end()) {
    if (run().options.arbiter) run().options.arbiter->set_failed();
    throw_error(error, tasks_.describe(place_));
  }
  leave();
  run().elapsed.last = false;
  return {std::move(run().state),
          std::move(run().journal.history()),
          run().elapsed,
          std::move(run().journal.outputs()),
          std::move(run().options.metadata),
          signal_,
          ended_};
}

template <class S, class B>
void RunCore<S, B>::fail(const std::exception_ptr& cause) {
  bool whole = place_ != Place::loop;
  std::string also;
  // The step was complete, and only the next batch failed. This is the last chance to run what is due at the step's
  // end.
  if (place_ == Place::next_batch) {
    try {
      tasks_.run_step_end();
      run().journal.end_step(run().elapsed, run().loop.logs);
      tasks_.run_after_step();
    } catch (...) {
      also = "; what was due at the end of the previous step also failed: " +
             explain_exception(std::current_exception()).second;
      whole = false;
      tasks_.drop_step();
    }
    run().elapsed.count(run().elapsed.step_samples);
  }
  const std::string where = tasks_.describe(place_);
  run().loop.failed_between_steps = whole && tasks_.running() == nullptr && !run().lane.is_launching() &&
                                    run().elapsed.steps > run().options.elapsed.steps;
  run().loop.failed = true;
  if (run().options.arbiter) run().options.arbiter->set_failed();
  run().journal.set_failing();
  if (run().journal.showing() == nullptr && tasks_.running() != nullptr)
    run().journal.fail(tasks_.running()->observer());
  run().journal.forget_showing();
  run().loop.logs.clear();
  run().journal.drop_step();
  tasks_.drop_step();
  try {
    run().bring_device();
  } catch (...) {
    // A second error usually comes from the same device and adds nothing.
    run().loop.failed_between_steps = false;
  }
  run().lane.drain(true);
  run().elapsed.date = run().clock.date();
  over_ = finished_ = true;
  (void)end();
  throw_error(cause, where, also);
}

template <class S, class B>
void RunCore<S, B>::run_last_after_all() {
  if (!tasks_.agenda().awaits_end() || run().elapsed.steps == run().options.elapsed.steps) return;
  const Elapsed completed = run().elapsed;
  run().elapsed.step_samples = run().elapsed.samples - run().elapsed.previous_samples;
  run().elapsed.samples = run().elapsed.previous_samples;
  run().elapsed.date = run().elapsed.previous_date;
  --run().elapsed.steps;
  if (!is_saved_) run().loop.set_batch(nullptr);
  run_last();
  tasks_.run_step_end();
  if (!run().loop.logs.empty() || !run().journal.is_empty()) run().journal.end_step(run().elapsed, run().loop.logs);
  tasks_.run_after_step();
  run().elapsed = completed;
  settle();
}

template <class S, class B>
void RunCore<S, B>::leave() {
  if (run().group) {
    try {
      const int signal = run().group->leave();
      if (signal_ == 0 && heeds_signals_) signal_ = signal;
    } catch (...) {
      throw_error(std::current_exception(), tasks_.describe(place_));
    }
  } else if (signal_ == 0 && heeds_signals_ && !run().options.arbiter) {
    signal_ = run().clock.interrupt();
  }
}

template <class S, class B>
std::exception_ptr RunCore<S, B>::end() {
  between_steps_ = true;
  run().loop.set_batch(nullptr);
  run().elapsed.step_samples = 0;
  run().elapsed.last = false;
  return tasks_.end();
}

template <class S, class B>
void RunCore<S, B>::throw_error(const std::exception_ptr& cause, std::string where, const std::string& also) {
  const auto [code, what] = explain_exception(cause);
  const Partitioner* const partitioner = run().loop.partitioner();
  if (partitioner != nullptr && partitioner->size() > 1) {
    where = "rank " + std::to_string(partitioner->rank()) + " of " + std::to_string(partitioner->size()) + ", " + where;
  }
  run().elapsed.last = false;
  throw LoopError(code, where + ": " + what + also, cause, std::move(run().state), run().elapsed,
                  std::move(run().journal.history()), std::move(run().journal.outputs()),
                  std::move(run().options.metadata));
}

}  // namespace giro::detail
