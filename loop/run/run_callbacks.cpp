// The callbacks of a run: which ones run in the current step, and how.

#include <algorithm>
#include <utility>

#include <giro/runtime/span.h>

#include "loop/run/run_engine.h"

namespace giro::detail {

// Calls f for each callback that runs on this rank.
template <class F>
void RunEngine::for_each_callback(F&& f) {
  for (Task& task : tasks_) {
    for (AnyCallback& callback : task.callbacks) {
      if (runs_here(callback)) f(callback);
    }
  }
}

template <class F>
void RunEngine::run_hook(AnyCallback& callback, const char* name, F&& hook) {
  running_ = &callback;
  const auto full_name = [&] { return callback.name() + "::" + name; };
  const Span span("callback", full_name, "step", elapsed_.steps);
  hook();
  running_ = nullptr;
}

// Whether a callback saves when a signal asks for it.
bool RunEngine::saves() const {
  return std::ranges::any_of(tasks_, [](const Task& task) {
    return std::ranges::any_of(task.callbacks, [](const AnyCallback& callback) { return callback.saves(); });
  });
}

// Call this before the dataset begins. It may restore an interrupted run.
void RunEngine::resume() {
  if (partitioner_ && partitioner_->size() > 1) {
    partitioner_->expect_same("the loop", "stop: " + to_string(options_.stop) + '\n' + listing());
  }
  for_each_callback([&](AnyCallback& c) { run_hook(c, "on_claim", [&] { c.on_claim(loop_); }); });
  for (AnyCallback& c : options_.on_start) run_hook(c, "on_resume", [&] { c.on_resume(loop_); });
  for_each_callback([&](AnyCallback& c) { run_hook(c, "on_resume", [&] { c.on_resume(loop_); }); });
}

// Runs on_start. Returns whether a callback stops the run before its first step.
bool RunEngine::start() {
  loop_.batch_ = dataset_.batch();
  for (AnyCallback& c : options_.on_start) run_hook(c, "on_start", [&] { run_at_once(c); });
  for_each_callback([&](AnyCallback& c) { run_hook(c, "on_start", [&] { c.on_start(loop_); }); });
  loop_.logs.clear();
  return arbiter_->stop(loop_.stop_iteration, elapsed_);
}

void RunEngine::run_on_save() {
  const bool stopped = loop_.stop_iteration;
  for_each_callback([&](AnyCallback& c) { run_hook(c, "on_save", [&] { c.on_save(loop_); }); });
  defer_stop(stopped);
}

// Runs every on_end, except those of callbacks that have failed. If an error came between two steps, runs every on_save
// first. Returns the first exception.
std::exception_ptr RunEngine::run_on_end() {
  between_steps_ = true;
  loop_.batch_ = nullptr;
  elapsed_.step_samples = 0;
  elapsed_.last = false;
  std::exception_ptr error;
  const AnyCallback* first = nullptr;
  const auto run = [&](AnyCallback& callback, const char* name, auto&& hook) {
    if (journal_.has_failed(callback.observer())) return;
    try {
      run_hook(callback, name, hook);
    } catch (...) {
      loop_.failed = true;
      if (!error) first = &callback;
      if (!error) error = std::current_exception();
    }
  };
  if (loop_.failed_between_steps) {
    for_each_callback([&](AnyCallback& c) { run(c, "on_save", [&] { c.on_save(loop_); }); });
  }
  for_each_callback([&](AnyCallback& c) { run(c, "on_end", [&] { c.on_end(loop_); }); });
  for (AnyCallback& c : options_.on_end) run(c, "on_end", [&] { run_at_once(c); });
  running_ = first;
  return error;
}

void RunEngine::run_due() {
  agenda_.evaluate(
      elapsed_, [&](const Agenda::Traits& traits) { before_schedule(traits); },
      [&](std::size_t task) {
        tasks_[task].ran = 0;
        tasks_[task].ran_at = elapsed_.steps;
        run_task(tasks_[task]);
      });
}

// Runs what a stop in this step has skipped, after the stop was refused.
void RunEngine::run_skipped() {
  for (Task& task : tasks_) {
    if (task.ran_at == elapsed_.steps) run_task(task);
  }
}

// Runs the callbacks of last() if only now the step is known to be the last, or a stop has skipped them. If a signal
// ends the run and has saved it, leaves out those that save.
void RunEngine::run_last() {
  if (!agenda_.awaits_end() || (elapsed_.last && !loop_.stop_iteration)) return;
  elapsed_.last = true;
  agenda_.evaluate_at_end(
      elapsed_, [&](const Agenda::Traits& traits) { before_schedule(traits); },
      [&](std::size_t index) {
        Task& task = tasks_[index];
        if (std::exchange(task.ran_at, elapsed_.steps) != elapsed_.steps) task.ran = 0;
        while (task.ran < task.callbacks.size()) {
          AnyCallback& callback = task.callbacks[task.ran++];
          if (!is_saved_ || !callback.saves()) run_callback(callback);
        }
      });
}

void RunEngine::before_schedule(const Agenda::Traits& traits) {
  if (traits.runs_user_code) launch();
  if (traits.reads_clock) clock_.read(elapsed_);
}

// Runs the callbacks that are left, up to one that stops the run.
void RunEngine::run_task(Task& task) {
  while (task.ran < task.callbacks.size() && !loop_.stop_iteration) run_callback(task.callbacks[task.ran++]);
}

void RunEngine::run_callback(AnyCallback& callback) {
  if (callback.kind() == CallbackKind::observer) {
    if (runs_here(callback)) journal_.add(callback.observer());
    return;
  }
  if (callback.sees_elapsed()) {
    // Several ranks use the date they agreed on last, so that none has to wait.
    if (group_)
      elapsed_.date = group_->agreed_date();
    else
      clock_.read(elapsed_);
  }
  const auto name = [&] { return callback.name(); };
  if (callback.kind() == CallbackKind::device_step) {
    running_ = &callback;
    const Span span("callback", name, "step", elapsed_.steps);
    callback.enqueue(loop_, *this);
    queued_ = &callback;
  } else {
    if (runs_here(callback)) {
      bring_device();
      running_ = &callback;
      const Span span("callback", name, "step", elapsed_.steps);
      callback.run(loop_);
      if (!loop_.logs.empty()) loop_.logs.fetch();
    }
    // Agreed at once, so that all ranks skip the same callbacks.
    if (group_ && callback.can_stop()) loop_.stop_iteration = group_->stop(loop_.stop_iteration, elapsed_);
  }
  running_ = nullptr;
}

// For on_start and on_end, where nothing is held back.
void RunEngine::run_at_once(AnyCallback& callback) {
  if (!runs_here(callback)) return;
  if (callback.kind() == CallbackKind::observer) return callback.observer()->observe(elapsed_, loop_.logs);
  callback.run(loop_);
}

void RunEngine::at_step_end(std::function<void()> f) {
  if (between_steps_) return f();
  at_step_end_.push_back({running_, std::move(f)});
}

void RunEngine::after_step(std::function<void()> f, bool first) {
  if (between_steps_) return f();
  after_step_.insert(first ? after_step_.begin() : after_step_.end(), {running_, std::move(f)});
}

void RunEngine::run_deferred(std::vector<Deferred>& calls, const char* name) {
  bring_device();
  const bool stopped = loop_.stop_iteration;
  for (const Deferred& call : std::exchange(calls, {})) {
    running_ = call.callback;
    const auto full_name = [&] { return (running_ != nullptr ? running_->name() : "") + name; };
    const Span span("callback", full_name, "step", elapsed_.steps);
    call.run();
    running_ = nullptr;
  }
  defer_stop(stopped);
}

// Defers a stop to the next exchange of signals: only this rank asks for it, and the others are not waiting.
void RunEngine::defer_stop(bool stopped) {
  if (!group_ || stopped || !loop_.stop_iteration) return;
  group_->request_stop();
  loop_.stop_iteration = false;
}

// A line for each task: "every(1000): giro::Checkpoint".
std::string RunEngine::listing() const {
  std::string lines;
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    lines += to_string(agenda_.schedule(i)) + ":";
    for (const AnyCallback& callback : tasks_[i].callbacks) lines += ' ' + callback.name();
    lines += '\n';
  }
  return lines;
}

}  // namespace giro::detail
