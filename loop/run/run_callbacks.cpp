// The callbacks of a run, and the device: which ones run in the current step, and what must be done before.

#include <algorithm>
#include <utility>

#include <giro/runtime/span.h>

#include "loop/run/run_engine.h"

namespace giro::detail {

// Runs f, a function of a callback, so that errors and traces name it.
template <class F>
void RunEngine::run_as(CallbackModel* callback, const char* function, F&& f) {
  current_ = {callback, elapsed_.steps};
  const auto name = [&] { return (callback != nullptr ? callback->name() : "") + function; };
  const Span span("callback", name, "step", elapsed_.steps);
  f();
  current_ = {};
}

void RunEngine::run_hook(CallbackModel* callback, const char* name, Hook hook) {
  run_as(callback, name, [&] { (callback->*hook)(loop_); });
}

void RunEngine::run_hooks(const char* name, Hook hook) {
  for (CallbackModel* callback : callbacks_) run_hook(callback, name, hook);
}

// Tells callbacks the names of these logs and of those that the step's rows will hold.
void RunEngine::announce_entries(const Logs& logs) {
  journal_.for_each_schema(logs, [&](const LogSchema& entries) {
    if (std::ranges::find(announced_, entries) != announced_.end()) return;
    announced_.push_back(entries);
    std::erase_if(checking_entries_, [&](CallbackModel* callback) {
      bool is_done = false;
      run_as(callback, "::on_logged", [&] { is_done = callback->on_logged(entries); });
      return is_done;
    });
  });
}

// Call this before the dataset begins. It may restore an interrupted run.
void RunEngine::resume() {
  if (partitioner_) {
    std::string listing = "stop: " + to_string(options_.stop) + '\n';
    for (const Agenda::Task& task : agenda_.tasks()) {
      listing += to_string(task.schedule) + ":";
      for (const AnyCallback& callback : task.callbacks) listing += ' ' + callback->name();
      listing += '\n';
    }
    partitioner_->expect_same("the loop", listing);
  }
  run_hooks("::on_claim", &CallbackModel::on_claim);
  for (AnyCallback& c : options_.on_start) run_hook(c.get(), "::on_resume", &CallbackModel::on_resume);
  run_hooks("::on_resume", &CallbackModel::on_resume);
  if (!checking_entries_.empty()) announce_entries(loop_.accumulated_logs());
}

// Runs the tasks that are due, and with `again` those of last(), if only now the step is known to be the last.
void RunEngine::run_due(bool again) {
  const auto before = [&](const Agenda::Traits& traits) {
    if (traits.runs_user_code) launch();
    if (traits.reads_clock) clock_.read(elapsed_);
  };
  agenda_.evaluate(elapsed_, again, before, [&](Agenda::Task& task) { run_task(task, again); });
}

// Runs the callbacks of a task that are left, up to one that stops the run, or all of them. If a signal ends the run
// and has saved it, leaves out those that save.
void RunEngine::run_task(Agenda::Task& task, bool all) {
  while (task.ran < task.callbacks.size() && (all || !loop_.stop_iteration)) {
    CallbackModel* const callback = task.callbacks[task.ran++].get();
    if (!is_saved_ || !callback->traits.saves) run_callback(callback);
  }
}

void RunEngine::run_callback(CallbackModel* callback) {
  const CallbackTraits& traits = callback->traits;
  const bool runs_here = !traits.is_primary_only || !partitioner_ || partitioner_->rank() == 0;
  if (traits.kind == CallbackKind::observer) {
    if (runs_here) journal_.add(callback);
    return;
  }
  if (traits.sees_elapsed) {
    // Several ranks use the date they agreed on last, so that none has to wait.
    if (group_)
      elapsed_.date = group_->agreed_date();
    else
      clock_.read(elapsed_);
  }
  if (traits.kind == CallbackKind::device_step) {
    run_as(callback, "", [&] { callback->enqueue(loop_, *this); });
    queued_ = callback;
    return;
  }
  if (runs_here) {
    bring_device();
    run_as(callback, "", [&] {
      callback->run(loop_);
      if (!loop_.logs.empty()) loop_.logs.fetch();
    });
  }
  // Agreed at once, so that all ranks skip the same callbacks.
  if (group_ && traits.can_stop) {
    current_ = {callback, elapsed_.steps};  // an error names the callback that the others wait for
    loop_.stop_iteration = group_->stop(loop_.stop_iteration, elapsed_);
    current_ = {};
  }
}

// Runs the callbacks of last() if only now the step is known to be the last, or a stop has skipped them.
void RunEngine::run_last() {
  if (!agenda_.awaits_end() || (elapsed_.last && !loop_.stop_iteration)) return;
  elapsed_.last = true;
  run_due(true);
}

void RunEngine::at_step_end(std::function<void()> f) {
  if (between_steps_) return f();
  at_step_end_.push_back({current_.callback, std::move(f)});
}

void RunEngine::after_step(std::function<void()> f, bool first) {
  if (between_steps_) return f();
  after_step_.insert(first ? after_step_.begin() : after_step_.end(), {current_.callback, std::move(f)});
}

void RunEngine::run_deferred(std::vector<Deferred>& calls, const char* name) {
  bring_device();
  const bool stopped = loop_.stop_iteration;
  for (const Deferred& call : std::exchange(calls, {})) run_as(call.callback, name, call.run);
  defer_stop(stopped);
}

// Defers a stop to the next exchange of signals: only this rank asks for it, and the others are not waiting.
void RunEngine::defer_stop(bool stopped) {
  if (!group_ || stopped || !loop_.stop_iteration) return;
  group_->request_stop();
  loop_.stop_iteration = false;
}

void RunEngine::push(const std::shared_ptr<StepRecording>& recording, const StepCall& call) {
  // Makes room in rings that are full of calls not yet run or of logs not yet read.
  while (!recording->has_room()) {
    launch();
    if (journal_.has_pending() && queue_.wait()) {
      drain(false);
    } else {
      recording->stream().synchronize();
      read_logs();
    }
  }
  journal_.add(recording->logs());
  try {
    queue_.push(recording, call);
  } catch (...) {
    recording->set_failed();
    throw;
  }
}

void RunEngine::flush() {
  if (journal_.has_rows()) {
    synchronize();
  } else {
    launch();
  }
}

void RunEngine::launch() {
  if (queue_.is_empty()) return;
  const Current outer = std::exchange(current_, {queued_, elapsed_.steps});
  queue_.launch();
  current_ = outer;
}

void RunEngine::synchronize() {
  launch();
  if (device_state_ != nullptr) device_state_->stream().synchronize();
  read_logs();
}

// Takes the logs of all launched steps, which the device must have finished.
void RunEngine::read_logs() {
  drain(true);
  journal_.arrive(loop_.logs);
}

// Commits the logs that have arrived, or all of them, and shows them to their observers. A program's own arbiter is not
// asked for the date, since the number of calls would depend on when logs arrive.
void RunEngine::drain(bool all) {
  journal_.drain(all, [&] { return options_.arbiter ? elapsed_.date : arbiter_->date(); });
}

}  // namespace giro::detail
