#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <giro/loop/agenda.h>
#include <giro/loop/callback.h>
#include <giro/loop/place.h>
#include <giro/loop/run_memory.h>
#include <giro/loop/run_parts.h>
#include <giro/loop/task.h>
#include <giro/runtime/files/archive.h>
#include <giro/runtime/span.h>

namespace giro::detail {

// The callbacks of a run: which ones run in the current step, which one is running, and what they remember.
template <class S, class B>
class RunTasks {
 public:
  RunTasks(S&& state, const std::vector<Task<S, B>>& tasks, LoopOptions<S, B>&& options, RunMemory* memory)
      : run_(std::move(state), std::move(options), memory),
        agenda_(schedules_of(tasks)),
        is_primary_(run_.loop.is_primary()) {
    for (const Task<S, B>& task : tasks) tasks_.push_back({task.callbacks});
  }

  RunParts<S, B>& run() noexcept { return run_; }
  const RunParts<S, B>& run() const noexcept { return run_; }
  const Agenda& agenda() const noexcept { return agenda_; }
  // Starts over as if nothing had run; the schedules keep their memory.
  void restart() { agenda_.restart(); }

  // Whether a callback saves when a signal asks for it.
  bool saves() const {
    for (const Entry& task : tasks_) {
      for (const Callback<S, B>& callback : task.callbacks) {
        if (callback.saves()) return true;
      }
    }
    return false;
  }

  void on_claim() {
    for_each_here(
        [&](Callback<S, B>& callback) { run_hook("on_claim", callback, [&] { callback.on_claim(run_.loop); }); });
  }
  void on_resume() {
    for (Callback<S, B>& callback : run_.options.on_start)
      run_hook("on_resume", callback, [&] { callback.on_resume(run_.loop); });
    for_each_here(
        [&](Callback<S, B>& callback) { run_hook("on_resume", callback, [&] { callback.on_resume(run_.loop); }); });
  }
  void on_start() {
    for (Callback<S, B>& callback : run_.options.on_start)
      run_hook("on_start", callback, [&] { run_at_once(callback); });
    for_each_here(
        [&](Callback<S, B>& callback) { run_hook("on_start", callback, [&] { callback.on_start(run_.loop); }); });
  }
  void on_save() {
    const bool stopped = run_.loop.stop_iteration;
    for_each_here(
        [&](Callback<S, B>& callback) { run_hook("on_save", callback, [&] { callback.on_save(run_.loop); }); });
    keep_for_later(stopped);
  }

  void run_due() {
    agenda_.ask(
        run_.elapsed, [&](const auto& traits) { before_asking(traits); },
        [&](std::size_t task) {
          tasks_[task].ran = 0;
          tasks_[task].ran_at = run_.elapsed.steps;
          if (!run_.loop.stop_iteration) run_task(tasks_[task]);
        });
  }
  // Runs what a stop in this step has skipped, after the stop was refused.
  [[gnu::cold]] void run_skipped() {
    for (Entry& task : tasks_) {
      if (task.ran_at == run_.elapsed.steps && !run_.loop.stop_iteration) run_task(task);
    }
  }
  // Runs the callbacks of last() that have not run in this step. If the run `is_saved`, leaves out those that save.
  [[gnu::cold]] void run_last(bool is_saved) {
    agenda_.ask_at_end(
        run_.elapsed, [&](const auto& traits) { before_asking(traits); },
        [&](std::size_t task) { run_rest(tasks_[task], is_saved); });
  }

  // The LoopState functions of the same names, within a step.
  void at_step_end(std::function<void()> f) { at_step_end_.push_back({running_, std::move(f)}); }
  void after_step(std::function<void()> f, bool first) {
    after_step_.insert(first ? after_step_.begin() : after_step_.end(), {running_, std::move(f)});
  }
  void run_step_end() {
    if (!at_step_end_.empty()) [[unlikely]]
      run_deferred(at_step_end_);
  }
  void run_after_step() {
    if (!after_step_.empty()) [[unlikely]]
      run_deferred(after_step_);
  }
  // Drops a step that has failed.
  void drop_step() {
    at_step_end_.clear();
    after_step_.clear();
    running_ = nullptr;
  }

  // Runs every on_end, except those of callbacks that have failed. If an error came between two steps, runs every
  // on_save first. Returns the first exception.
  std::exception_ptr end() {
    std::exception_ptr error;
    const Callback<S, B>* first = nullptr;
    const auto run = [&](const char* name, Callback<S, B>& callback, auto&& hook) {
      if (run_.journal.has_failed(callback.observer())) return;
      try {
        const Span span = span_of(callback, name);
        hook();
      } catch (...) {
        run_.loop.failed = true;
        if (!error) first = &callback;
        if (!error) error = std::current_exception();
      }
    };
    for_each_here([&](Callback<S, B>& callback) {
      if (run_.loop.failed_between_steps) run("on_save", callback, [&] { callback.on_save(run_.loop); });
    });
    for_each_here([&](Callback<S, B>& callback) { run("on_end", callback, [&] { callback.on_end(run_.loop); }); });
    for (Callback<S, B>& callback : run_.options.on_end) run("on_end", callback, [&] { run_at_once(callback); });
    running_ = first;
    return error;
  }

  // The callback that is running or has failed. While held-back calls are launched, the device step that was queued
  // last.
  const Callback<S, B>* running() const { return run_.lane.is_launching() ? held_ : running_; }

  // What is running: "task 2, every(1000): giro::Checkpoint, at step 3000"; `place` if it is not a callback.
  std::string describe(Place place) const {
    const Journal& journal = run_.journal;
    const bool shows = journal.showing_step() != Journal::kNoStep;
    const std::string step = ", at step " + std::to_string(shows ? journal.showing_step() : run_.elapsed.steps);
    const Observer* const observer = shows ? journal.showing() : running() != nullptr ? running()->observer() : nullptr;
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      const auto task = [&] { return "task " + std::to_string(i + 1) + ", " + to_string(agenda_.schedule(i)) + ": "; };
      if (agenda_.asking() == i) return task() + "its schedule" + step;
      for (const Callback<S, B>& callback : tasks_[i].callbacks) {
        if (observer != nullptr && callback.observer() == observer) return task() + callback.name() + step;
      }
    }
    if (shows) return "the logs" + step;
    if (running() != nullptr) return "on_start or on_end: " + running()->name() + step;
    return to_string(place) + step;
  }

  // A line for each task: "every(1000): giro::Checkpoint".
  std::string listing() const {
    std::string lines;
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      lines += to_string(agenda_.schedule(i)) + ":";
      for (const Callback<S, B>& callback : tasks_[i].callbacks) lines += ' ' + callback.name();
      lines += '\n';
    }
    return lines;
  }

  // Each is stored under its name, so that it does not matter if other tasks are added.
  void persist(Archive& archive) {
    UniqueNames schedules, callbacks;
    archive.within("schedules", [&] {
      for (std::size_t i = 0; i < tasks_.size(); ++i) {
        Schedule& schedule = agenda_.schedule(i);
        if (schedule.traits().persists) archive(schedules(to_string(schedule)), schedule);
      }
    });
    archive.within("callbacks", [&] {
      for_each([&](Callback<S, B>& callback) {
        if (callback.remembers()) archive(callbacks(callback.name()), callback);
      });
    });
  }

 private:
  struct Entry {
    std::vector<Callback<S, B>> callbacks;
    // The step in which they ran last, and how many of them ran: a stop may have skipped the rest.
    std::int64_t ran_at = -1;
    std::size_t ran = 0;
  };

  // A function that a callback has deferred to the end of its step.
  struct Deferred {
    const Callback<S, B>* callback;
    std::function<void()> run;
  };

  static std::vector<Schedule> schedules_of(const std::vector<Task<S, B>>& tasks) {
    std::vector<Schedule> schedules;
    for (const Task<S, B>& task : tasks) schedules.push_back(task.schedule);
    return schedules;
  }

  template <class F>
  void for_each(F&& f) {
    for (Entry& task : tasks_) {
      for (Callback<S, B>& callback : task.callbacks) f(callback);
    }
  }

  // Whether the callback runs on this rank.
  bool runs_here(const Callback<S, B>& callback) const { return is_primary_ || !callback.is_primary_only(); }
  template <class F>
  void for_each_here(F&& f) {
    for_each([&](Callback<S, B>& callback) {
      if (runs_here(callback)) f(callback);
    });
  }

  void before_asking(const Agenda::Traits& traits) {
    if (traits.runs_user_code) run_.lane.launch();
    if (traits.reads_clock) run_.clock.read(run_.elapsed);
  }

  [[gnu::always_inline]] void run_task(Entry& task) {
    while (task.ran < task.callbacks.size()) {
      run_callback(task.callbacks[task.ran++]);
      if (run_.loop.stop_iteration) return;
    }
  }
  void run_rest(Entry& task, bool is_saved) {
    if (std::exchange(task.ran_at, run_.elapsed.steps) != run_.elapsed.steps) task.ran = 0;
    while (task.ran < task.callbacks.size()) {
      Callback<S, B>& callback = task.callbacks[task.ran++];
      if (!is_saved || !callback.saves()) run_callback(callback);
    }
  }
  [[gnu::always_inline]] void run_callback(Callback<S, B>& callback) {
    switch (callback.kind()) {
      case CallbackKind::observer:
        if (runs_here(callback)) run_.journal.add(callback.observer());
        return;
      case CallbackKind::device_step:
        if (callback.sees_elapsed()) read_clock();
        running_ = &callback;
        if (is_watched()) [[unlikely]]
          enqueue_watched(callback);
        else
          callback.enqueue(run_.loop, run_.lane);
        held_ = &callback;
        break;
      case CallbackKind::barrier:
        if (callback.sees_elapsed()) read_clock();
        if (runs_here(callback)) {
          run_.bring_device();
          running_ = &callback;
          if (is_watched()) [[unlikely]]
            run_watched(callback);
          else
            callback.run(run_.loop);
          if (!run_.loop.logs.empty()) run_.loop.logs.fetch();
        }
        // Agreed at once, so that all ranks skip the same callbacks.
        if (run_.group && callback.can_stop()) [[unlikely]]
          run_.loop.stop_iteration = run_.group->stop(run_.loop.stop_iteration, run_.elapsed);
        break;
    }
    running_ = nullptr;
  }

  // Defers a stop to the next exchange of signals: only this rank asks for it, and the others are not waiting.
  void keep_for_later(bool stopped) {
    if (!run_.group || stopped || !run_.loop.stop_iteration) return;
    run_.group->request_stop();
    run_.loop.stop_iteration = false;
  }
  // Runs within a span. Not inlined, since even an unobserved span costs a nanosecond per step.
  [[gnu::cold, gnu::noinline]] void run_watched(Callback<S, B>& callback) {
    const Span span(
        "callback", [&] { return callback.name(); }, "step", run_.elapsed.steps);
    callback.run(run_.loop);
  }
  [[gnu::cold, gnu::noinline]] void enqueue_watched(Callback<S, B>& callback) {
    const Span span(
        "callback", [&] { return callback.name(); }, "step", run_.elapsed.steps);
    callback.enqueue(run_.loop, run_.lane);
  }
  Span span_of(const Callback<S, B>& callback, const char* hook) const {
    return {"callback", [&] { return callback.name() + "::" + hook; }, "step", run_.elapsed.steps};
  }
  // For a callback that reads the date. With several ranks, uses the date they agreed on last, so that none has to
  // wait.
  void read_clock() {
    if (run_.group) [[unlikely]]
      run_.elapsed.date = run_.group->agreed_date();
    else
      run_.clock.read(run_.elapsed);
  }

  // For on_start and on_end, where nothing is held back.
  void run_at_once(Callback<S, B>& callback) {
    if (!runs_here(callback)) return;
    if (callback.kind() == CallbackKind::observer) {
      return callback.observer()->observe(run_.elapsed, run_.loop.logs);
    }
    callback.run(run_.loop);
  }
  template <class F>
  void run_hook(const char* name, const Callback<S, B>& callback, F&& hook) {
    running_ = &callback;
    const Span span = span_of(callback, name);
    hook();
    running_ = nullptr;
  }
  [[gnu::cold]] void run_deferred(std::vector<Deferred>& calls) {
    run_.bring_device();
    const bool stopped = run_.loop.stop_iteration;
    for (const Deferred& call : std::exchange(calls, {})) {
      running_ = call.callback;
      const auto name = [&] { return (running_ != nullptr ? running_->name() : "") + "::at_step_end"; };
      const Span span("callback", name, "step", run_.elapsed.steps);
      call.run();
      running_ = nullptr;
    }
    keep_for_later(stopped);
  }

  RunParts<S, B> run_;
  Agenda agenda_;
  std::vector<Entry> tasks_;
  std::vector<Deferred> at_step_end_, after_step_;
  const Callback<S, B>* held_ = nullptr;  // the device step that was queued last
  const Callback<S, B>* running_ = nullptr;
  const bool is_primary_;
};

}  // namespace giro::detail
