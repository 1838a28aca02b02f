#pragma once

#include <algorithm>
#include <any>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <initializer_list>
#include <limits>
#include <optional>
#include <ranges>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <giro/loop/callback.h>
#include <giro/loop/data/current_batch.h>
#include <giro/loop/interrupt.h>
#include <giro/loop/log/history.h>
#include <giro/loop/log/outputs.h>
#include <giro/loop/loop_error.h>
#include <giro/loop/step/pace.h>
#include <giro/loop/time/elapsed.h>
#include <giro/loop/time/schedule.h>

namespace giro {

// The samples in a batch: its size() where it has one, else 1.
template <class B>
std::int64_t batch_size(const B& batch) {
  if constexpr (requires {
                  { batch.size() } -> std::convertible_to<std::int64_t>;
                }) {
    return static_cast<std::int64_t>(batch.size());
  } else {
    return 1;
  }
}

// Callbacks and when they are due.
template <class S, class B>
struct Task {
  Schedule schedule;
  std::vector<Callback<S, B>> callbacks;

  Task(Schedule when, Callback<S, B> callback) : schedule(std::move(when)), callbacks{std::move(callback)} {}
  Task(Schedule when, std::initializer_list<Callback<S, B>> list) : schedule(std::move(when)), callbacks(list) {}
  Task(Schedule when, std::vector<Callback<S, B>> list) : schedule(std::move(when)), callbacks(std::move(list)) {}
};

template <class S, class B>
struct LoopOptions {
  Period stop;           // default: when the dataset ends
  Elapsed elapsed = {};  // where an earlier loop has left off
  History history = {};  // to be continued
  Outputs outputs = {};  // likewise
  // Before the first step, if there is one, and behind the last, whatever ended the loop. What they log goes nowhere.
  std::vector<Callback<S, B>> on_start = {};
  std::vector<Callback<S, B>> on_end = {};
  std::function<std::int64_t(const B&)> batch_size_fn = {};  // default: giro::batch_size
  std::any metadata = {};                                    // for LoopState::metadata
  bool catch_signals = true;  // SIGINT and SIGTERM end the loop after its step (LoopResult::interrupted)
  // Steps the device is handed at once where no callback needs the host in between; 0: as many as fit. It changes
  // nothing but the time.
  std::int64_t steps_per_execution = 0;
};

// What a loop returns; `auto [state, history, elapsed] = loop(...)` takes the first three.
template <class S>
struct LoopResult {
  S state;
  History history;
  Elapsed elapsed;  // completed steps: with a dataset that stands there, another loop goes on from it
  Outputs outputs;  // what was logged as outputs, arrays included
  std::any metadata;
  int interrupted = 0;  // the signal that ended the loop, or 0
};

template <std::size_t kIndex, class R>
  requires requires(R& result) { result.interrupted; }
auto&& get(R&& result) {
  if constexpr (kIndex == 0)
    return std::forward<R>(result).state;
  else if constexpr (kIndex == 1)
    return std::forward<R>(result).history;
  else
    return std::forward<R>(result).elapsed;
}

namespace detail {

// One run of a loop: what happens between the first batch and the result.
template <class S, class B>
class LoopRun {
 public:
  LoopRun(S state, const std::vector<Task<S, B>>& tasks, LoopOptions<S, B> options)
      : state_(std::move(state)),
        options_(std::move(options)),
        history_(std::move(options_.history)),
        elapsed_(options_.elapsed),
        loop_(state_, elapsed_, history_, options_.metadata) {
    const double now = Elapsed::now();
    elapsed_.date_start = now - elapsed_.time();
    elapsed_.previous_date += now - elapsed_.date;
    elapsed_.date = now;
    elapsed_.last = false;
    stop_ = Wake::at(options_.stop, elapsed_.date_start);
    wake_.steps = elapsed_.steps;
    bool timed = stop_.time < std::numeric_limits<double>::infinity();
    tasks_.reserve(tasks.size());
    for (const Task<S, B>& task : tasks) {
      const Entry& entry = tasks_.emplace_back(task);
      awaits_end_ |= entry.traits.awaits_end;
      timed |= entry.traits.reads_clock;
    }
    clock_ = ClockWatch(timed);
  }

  template <class R>
  LoopResult<S> operator()(R& dataset) {
    const InterruptScope signals(options_.catch_signals);
    try {
      run(dataset);
      settle();
    } catch (...) {
      fail(std::current_exception());
    }
    if (const std::exception_ptr error = end()) throw_error(error);
    return {std::move(state_),           std::move(history_),          elapsed_,
            std::move(options_.outputs), std::move(options_.metadata), interrupt_signal()};
  }

 private:
  struct Entry {
    explicit Entry(const Task<S, B>& task)
        : schedule(task.schedule), callbacks(task.callbacks), traits(schedule.traits()) {}
    Schedule schedule;
    std::vector<Callback<S, B>> callbacks;
    ScheduleNode::Traits traits;
    Wake wake{.steps = 0};  // when to ask the schedule next
    // Where it was asked last; and for last(), which asks again, as it was before, and how far its callbacks have come.
    std::int64_t asked = kNot;
    std::optional<Schedule> before;
    std::size_t callbacks_run = 0;
  };
  // A step whose logs the host has not seen yet.
  struct Pending {
    Elapsed elapsed;
    Logs logs;
    std::vector<Callback<S, B>*> observers;
    std::size_t next_observer = 0;
    bool committed = false;
  };

  template <class R>
  void run(R& dataset) {
    pace_ = Pace(options_.steps_per_execution);
    // A run that is past its end asks for no batch.
    if (stop_.reached(elapsed_)) return;
    auto it = std::ranges::begin(dataset);
    const auto end = std::ranges::end(dataset);
    if (it == end) return check_none_asked_for();
    CurrentBatch<R, B> current;
    loop_.set_batch(&current.at(it));
    start();
    if (loop_.stop_iteration) return;
    for (bool ends = false; !ends;) {
      if (elapsed_.steps < busy_steps_ && count_quiet_steps(it, end, current)) return;
      const B& batch = current.at(it);
      const std::int64_t size = size_of(batch);
      elapsed_.step_samples = size;
      elapsed_.last = elapsed_.steps + 1 >= stop_.steps || elapsed_.samples + size >= stop_.samples;
      if (elapsed_.last || wake_.reached(elapsed_)) {
        loop_.set_batch(&batch);
        run_due();
      }

      const bool look = clock_.is_due(elapsed_.steps + 1);
      const double date = look ? Elapsed::now() : elapsed_.date;
      ends =
          elapsed_.last || loop_.stop_iteration || interrupt_signal() != 0 || date - elapsed_.date_start >= stop_.time;
      std::optional<B> kept;
      if constexpr (!current.kOutlivesIterator && std::copy_constructible<B>) {
        if (awaits_end_ && !ends) kept.emplace(batch);
      }
      loop_.set_batch(kept ? &*kept : ends || current.kOutlivesIterator ? &batch : nullptr);
      // A batch that no step will see is not asked for.
      if (!ends) {
        advancing_ = size;
        ends = ++it == end;
        advancing_ = kNot;
      }
      if (ends && awaits_end_ && (!elapsed_.last || loop_.stop_iteration)) run_last();
      current.forget();

      const bool leaves_news = has_news();
      if (leaves_news) keep_news();
      elapsed_.count(size);
      elapsed_.date = date;
      date_is_read_ = look;
      if (leaves_news) drain(false);
      if (look) clock_.looked(elapsed_, std::min(stop_.time, wake_.time));
      expect_quiet();
    }
  }

  // Passes over the steps in which there is nothing to do but to count them, in registers; whether the dataset has
  // ended. A step that may turn out to be the last is not one of them.
  template <class I, class End, class Current>
  bool count_quiet_steps(I& it, const End& end, Current& current) {
    const std::int64_t busy_steps = busy_steps_, busy_samples = busy_samples_;
    std::int64_t steps = elapsed_.steps, samples = elapsed_.samples, before = elapsed_.previous_samples;
    std::int64_t advancing = kNot;
    bool ends = false;
    const auto write_back = [&] {
      elapsed_.steps = steps;
      elapsed_.samples = samples;
      elapsed_.previous_samples = before;
      elapsed_.previous_date = elapsed_.date;
      date_is_read_ = false;
    };
    try {
      while (!ends && steps < busy_steps && interrupt_signal() == 0) {
        auto&& batch = *it;
        const std::int64_t size = size_of(batch);
        if (samples + size >= busy_samples) {
          current.keep(std::forward<decltype(batch)>(batch));
          break;
        }
        advancing = size;
        ends = ++it == end;
        advancing = kNot;
        before = samples;
        samples += size;
        ++steps;
      }
    } catch (...) {
      write_back();
      advancing_ = advancing;
      throw;
    }
    if (steps != elapsed_.steps) write_back();
    return ends;
  }
  void expect_quiet() {
    const bool timely = elapsed_.time() >= wake_.time;
    busy_steps_ = awaits_end_ || timely ? 0 : std::min({wake_.steps, stop_.steps - 1, clock_.next() - 1});
    busy_samples_ = std::min(wake_.samples, stop_.samples);
  }

  void check_none_asked_for() const {
    if (stop_.steps != Wake().steps || stop_.samples != Wake().samples) {
      throw Error(ErrorCode::invalid_argument,
                  "the dataset is empty, expected batches until " + to_string(options_.stop));
    }
  }

  std::int64_t size_of(const B& batch) const {
    return options_.batch_size_fn ? options_.batch_size_fn(batch) : batch_size(batch);
  }

  void start() {
    for (Callback<S, B>& callback : options_.on_start) {
      running_ = &callback;
      run_at_once(callback);
    }
    for (Entry& task : tasks_) {
      for (Callback<S, B>& callback : task.callbacks) {
        running_ = &callback;
        callback.on_start(loop_);
      }
    }
    running_ = nullptr;
    loop_.logs = {};
  }

  // Every on_end but that of the callback that has failed. What the first of them to fail has thrown.
  std::exception_ptr end() {
    std::exception_ptr error;
    loop_.set_batch(nullptr);
    elapsed_.step_samples = 0;
    elapsed_.last = false;
    const auto run = [&](Callback<S, B>& callback, auto&& on_end) {
      if (has_failed(callback)) return;
      try {
        on_end(callback);
        if (!error) running_ = nullptr;
      } catch (...) {
        loop_.failed = true;
        if (!error) running_ = &callback;
        if (!error) error = std::current_exception();
      }
    };
    for (Entry& task : tasks_) {
      for (Callback<S, B>& callback : task.callbacks) run(callback, [&](auto& c) { c.on_end(loop_); });
    }
    for (Callback<S, B>& callback : options_.on_end) {
      run(callback, [&](auto& c) { run_at_once(c); });
    }
    return error;
  }

  void run_at_once(Callback<S, B>& callback) {
    if (callback.kind() == CallbackKind::observer) return callback.observe(elapsed_, loop_.logs);
    callback.run(loop_);
    callback.launch();
  }

  // Asks the schedules, and runs what is due.
  void run_due() {
    const bool all = elapsed_.last || others_.reached(elapsed_);
    if (all) {
      watched_.clear();
      for (Entry& task : tasks_) watched_.push_back(&task);
    }
    for (Entry* task : watched_) {
      if (elapsed_.last || task->wake.reached(elapsed_)) run_if_due(*task);
    }
    if (all) forget_others();
    wake_ = others_;
    for (const Entry* task : watched_) wake_.merge(task->wake);
  }

  // Takes from the watched tasks those that no step has to look at for a while.
  void forget_others() {
    others_ = {};
    std::erase_if(watched_, [&](const Entry* task) {
      // The clock may be read in the middle of a step.
      if (task->traits.reads_clock || task->wake.steps <= elapsed_.steps + 1) return false;
      others_.merge(task->wake);
      return true;
    });
  }

  bool ask(Entry& task) {
    if (task.traits.asks_user) launch();
    if (task.traits.reads_clock) read_clock();
    if (task.traits.awaits_end) task.before.emplace(task.schedule);
    task.asked = elapsed_.steps;
    task.callbacks_run = 0;
    const bool due = task.schedule(elapsed_);
    task.wake = Wake::at(task.schedule.next(elapsed_), elapsed_.date_start);
    return due;
  }

  void run_if_due(Entry& task) {
    const bool due = task.traits.always || ask(task);
    if (task.traits.always) task.wake.steps = elapsed_.steps + 1;
    if (!due || loop_.stop_iteration) return;
    for (Callback<S, B>& callback : task.callbacks) {
      ++task.callbacks_run;
      run_callback(callback);
      if (loop_.stop_iteration) return;
    }
  }

  void run_callback(Callback<S, B>& callback) {
    switch (callback.kind()) {
      case CallbackKind::observer:
        observers_.push_back(&callback);
        return;
      case CallbackKind::device_step:
        if (held_ != &callback) launch();
        if (callback.sees_elapsed()) read_clock();
        running_ = &callback;
        callback.run(loop_);
        held_ = &callback;
        ++held_steps_;
        if (pace_.is_full(held_steps_)) launch();
        break;
      case CallbackKind::barrier:
        bring_device();
        if (callback.sees_elapsed()) read_clock();
        running_ = &callback;
        callback.run(loop_);
        break;
    }
    running_ = nullptr;
  }

  // What last() brings where the step has turned out to be the last only now, or a stop has skipped it.
  void run_last() {
    elapsed_.last = true;
    for (Entry& task : tasks_) {
      if (!task.traits.awaits_end) continue;
      if (task.asked == elapsed_.steps) {
        task.schedule = *task.before;
      } else {
        task.callbacks_run = 0;
      }
      if (!task.schedule(elapsed_)) continue;
      while (task.callbacks_run < task.callbacks.size()) run_callback(task.callbacks[task.callbacks_run++]);
    }
  }

  void read_clock() {
    if (!std::exchange(date_is_read_, true)) elapsed_.date = Elapsed::now();
  }

  // Launches the steps that were held back, to be run as one.
  void launch() {
    if (held_ == nullptr) return;
    Callback<S, B>* outer = std::exchange(running_, held_);
    std::exchange(held_, nullptr)->launch();
    running_ = outer;
    if constexpr (std::is_base_of_v<State, S>) pace_.launched(held_steps_, state_.stream());
    held_steps_ = 0;
  }

  // Everything that was queued is done, and has been seen.
  void bring_device() {
    launch();
    if constexpr (std::is_base_of_v<State, S>) state_.stream().synchronize();
    drain(true);
  }

  void settle() {
    bring_device();
    elapsed_.date = Elapsed::now();
  }

  // Whether the step has left anything to be committed or observed.
  bool has_news() const { return !loop_.logs.empty() || !observers_.empty(); }
  void keep_news() {
    pending_.push_back({elapsed_, std::exchange(loop_.logs, {}), observers_});
    observers_.clear();
  }

  // Commits and shows to their observers the steps whose logs have arrived, or all of them.
  void drain(bool wait) {
    double date = 0;
    while (!pending_.empty() && (wait || pending_.front().logs.ready())) {
      Pending& step = pending_.front();
      running_step_ = step.elapsed.steps;
      if (!std::exchange(step.committed, true)) {
        if (date == 0) date = Elapsed::now();
        step.elapsed.date = date;
        // Nobody observes what does not arrive.
        if (!attempt([&] { commit(step); })) step.observers.clear();
      }
      while (step.next_observer < step.observers.size()) {
        Callback<S, B>& observer = *step.observers[step.next_observer++];
        if (has_failed(observer)) continue;
        Callback<S, B>* outer = std::exchange(running_, &observer);
        if (!attempt([&] { observer.observe(step.elapsed, step.logs); })) failed_.push_back(&observer);
        running_ = outer;
      }
      running_step_ = kNot;
      pending_.pop_front();
    }
  }
  void commit(const Pending& step) {
    if (step.logs.empty()) return;
    history_.commit(step.elapsed, step.logs);
    options_.outputs.commit(step.elapsed, step.logs);
  }

  // Whether f() has thrown nothing. Its error goes on, unless the loop has failed already: a second one, mostly of the
  // same device or disk, tells nothing new.
  template <class F>
  bool attempt(F&& f) {
    try {
      f();
      return true;
    } catch (...) {
      if (!loop_.failed) throw;
      return false;
    }
  }

  bool has_failed(const Callback<S, B>& callback) const {
    return std::ranges::find(failed_, &callback) != failed_.end();
  }

  // Saves what there is, lets the others end, and throws.
  [[noreturn]] void fail(const std::exception_ptr& cause) {
    const std::string where = describe();
    loop_.failed = true;
    if (running_ != nullptr) failed_.push_back(running_);
    // The step was whole, and only the next batch failed.
    if (advancing_ != kNot) {
      if (has_news()) keep_news();
      elapsed_.count(advancing_);
    }
    loop_.logs = {};
    observers_.clear();
    attempt([&] { bring_device(); });
    drain(true);
    elapsed_.date = Elapsed::now();
    (void)end();
    throw_error(cause, where);
  }
  [[noreturn]] void throw_error(const std::exception_ptr& cause) { throw_error(cause, describe()); }
  [[noreturn]] void throw_error(const std::exception_ptr& cause, const std::string& where) {
    const auto [code, what] = explain_exception(cause);
    elapsed_.last = false;
    throw LoopError(code, where + ": " + what, cause, std::move(state_), elapsed_, std::move(history_),
                    std::move(options_.outputs), std::move(options_.metadata));
  }

  // What is running: "task 2, every(1000): giro::Checkpoint, at step 3000".
  std::string describe() const {
    const auto step = ", at step " + std::to_string(running_step_ != kNot ? running_step_ : elapsed_.steps);
    if (running_ == nullptr) return (advancing_ != kNot ? "the dataset" : "the loop") + step;
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      for (const Callback<S, B>& callback : tasks_[i].callbacks) {
        if (&callback != running_) continue;
        return "task " + std::to_string(i + 1) + ", " + to_string(tasks_[i].schedule) + ": " + callback.name() + step;
      }
    }
    return "on_start or on_end: " + running_->name() + step;
  }

  static constexpr std::int64_t kNot = -1;

  S state_;
  LoopOptions<S, B> options_;
  History history_;
  Elapsed elapsed_;
  LoopState<S, B> loop_;
  std::vector<Entry> tasks_;
  std::vector<Entry*> watched_;                     // the tasks that may be due in the next step, in order, and
  Wake others_{.steps = 0};                         // when one of the others may be
  Wake stop_, wake_;                                // the end, and the earliest at which a schedule has to be asked
  std::int64_t busy_steps_ = 0, busy_samples_ = 0;  // the steps before both of them are quiet
  ClockWatch clock_{false};
  Pace pace_{0};
  bool awaits_end_ = false;
  bool date_is_read_ = false;               // in this step
  std::vector<Callback<S, B>*> observers_;  // due in this step
  std::deque<Pending> pending_;
  Callback<S, B>* held_ = nullptr;  // a device step whose latest calls wait for a launch
  std::int64_t held_steps_ = 0;
  Callback<S, B>* running_ = nullptr;
  std::int64_t running_step_ = kNot;  // an observer's, which may be behind the loop's
  std::vector<const Callback<S, B>*> failed_;
  std::int64_t advancing_ = kNot;  // the size of a whole step's batch, while the next is asked for
};

}  // namespace detail

// Threads `state` through the batches of `dataset` until it ends or `stop` is reached. At each step, for each task in
// order whose schedule is due, its callbacks run in order; what they log is merged, and committed to the history if
// there is any. A callback that sets stop_iteration ends the loop after this step; the callbacks behind it do not run.
// Steps that need nothing of the host (CallbackKind) are handed to the device many at a time.
//
//   auto [trained, history, elapsed] = giro::loop(std::move(state), train, {{giro::every(1), train_step}},
//                                                 {.stop = giro::at(5'000)});
//
// Errors: LoopError for whatever a callback, a schedule, the dataset or the device throws, and for an empty dataset
// where steps or samples were asked for.
template <class S, std::ranges::input_range R>
LoopResult<S> loop(S state, R&& dataset,
                   const std::type_identity_t<std::vector<Task<S, std::ranges::range_value_t<R>>>>& tasks,
                   std::type_identity_t<LoopOptions<S, std::ranges::range_value_t<R>>> options = {}) {
  detail::LoopRun<S, std::ranges::range_value_t<R>> run(std::move(state), tasks, std::move(options));
  return run(dataset);
}

}  // namespace giro

template <class S>
struct std::tuple_size<giro::LoopResult<S>> : std::integral_constant<std::size_t, 3> {};
template <class S>
struct std::tuple_element<0, giro::LoopResult<S>> {
  using type = S;
};
template <class S>
struct std::tuple_element<1, giro::LoopResult<S>> {
  using type = giro::History;
};
template <class S>
struct std::tuple_element<2, giro::LoopResult<S>> {
  using type = giro::Elapsed;
};
