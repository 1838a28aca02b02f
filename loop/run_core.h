#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <giro/loop/agenda.h>
#include <giro/loop/data/batch_size.h>
#include <giro/loop/device_lane.h>
#include <giro/loop/interrupt.h>
#include <giro/loop/journal.h>
#include <giro/loop/loop_error.h>
#include <giro/loop/loop_result.h>
#include <giro/loop/place.h>
#include <giro/loop/quiet_count.h>
#include <giro/loop/run_clock.h>
#include <giro/loop/run_memory.h>
#include <giro/loop/task.h>
#include <giro/runtime/archive.h>

namespace giro {

namespace detail {

// A run but for the dataset: what happens in a step, what it leaves behind, and what becomes of an error.
template <class S, class B>
class RunCore final : RunMemory {
 public:
  RunCore(S state, const std::vector<Task<S, B>>& tasks, LoopOptions<S, B> options)
      : state_(std::move(state)),
        options_(std::move(options)),
        journal_(std::move(options_.history), std::move(options_.outputs)),
        clock_(options_.arbiter.get(), options_.elapsed),
        elapsed_(clock_.started()),
        stop_(Wake::at(options_.stop, elapsed_.date_start)),
        agenda_(schedules_of(tasks), elapsed_.date_start),
        loop_(state_, elapsed_, journal_.history(), options_.metadata, this),
        lane_(journal_, clock_, elapsed_, loop_.logs),
        heeds_signals_(!is_in_saving_loop()) {
    for (const Task<S, B>& task : tasks) tasks_.push_back({task.callbacks});
    clock_.watch(agenda_.reads_clock() || stop_.time < Wake().time);
  }

  S& state() noexcept { return state_; }
  LoopOptions<S, B>& options() noexcept { return options_; }
  const Elapsed& elapsed() const noexcept { return elapsed_; }
  const History& history() const noexcept { return journal_.history(); }
  const Outputs& outputs() const noexcept { return journal_.outputs(); }

  // What a dataset remembers, and the number of batches that it has passed over when it begins.
  void set_dataset(std::function<void(Archive&)> persist, std::int64_t first_batch) {
    persist_dataset_ = std::move(persist);
    first_batch_ = first_batch;
  }
  // The batch to begin with, once resume() has been called.
  std::int64_t first_batch() const noexcept { return first_batch_; }

  bool has_ended() const noexcept { return over_; }
  void set_ended() noexcept { over_ = true; }

  void aim_at(const Period& until) {
    if (!std::exchange(aimed_, true)) lane_.set_steps_per_execution(options_.steps_per_execution);
    aim_ = Wake::at(until, elapsed_.date_start);
    if (aim_.time < Wake().time) clock_.watch(true);
    expect_quiet();
  }
  bool is_at_aim() const { return aim_.reached(elapsed_); }
  // Also where a run is resumed that a callback has stopped.
  bool is_at_stop() const { return loop_.stop_iteration || stop_.reached(elapsed_); }
  void check_none_asked_for() const {
    if (stop_.steps == Wake().steps && stop_.samples == Wake().samples) return;
    throw Error(ErrorCode::invalid_argument,
                "the dataset is empty, expected batches until " + to_string(options_.stop));
  }
  // What happens outside of callbacks from now on.
  void set_place(Place place) noexcept { place_ = place; }

  // The date of the step at hand, for whoever looks at elapsed().
  void read_clock() { clock_.read(elapsed_); }

  // Before the first batch is asked for: an interrupted run may be brought back.
  void resume() {
    for (Callback<S, B>& callback : options_.on_start) run_hook(callback, [&] { callback.on_resume(loop_); });
    for (Entry& task : tasks_) {
      for (Callback<S, B>& callback : task.callbacks) run_hook(callback, [&] { callback.on_resume(loop_); });
    }
  }

  // Whether a callback stops the run before its first step.
  bool start(const B& batch) {
    loop_.set_batch(&batch);
    for (Callback<S, B>& callback : options_.on_start) run_hook(callback, [&] { run_at_once(callback); });
    for (Entry& task : tasks_) {
      for (Callback<S, B>& callback : task.callbacks) run_hook(callback, [&] { callback.on_start(loop_); });
    }
    loop_.logs.clear();
    between_steps_ = false;
    return options_.arbiter ? options_.arbiter->stop(loop_.stop_iteration, elapsed_) : loop_.stop_iteration;
  }

  std::int64_t size_of(const B& batch) {
    if (options_.batch_size_fn) [[unlikely]]
      return options_.batch_size_fn(batch);
    return batch_size(batch);
  }

  // The steps in which there is nothing to do but to count them.
  bool may_be_quiet() const { return elapsed_.steps < quiet_steps_; }
  QuietCount quiet_count() const {
    return {elapsed_.steps, elapsed_.samples, elapsed_.previous_samples, quiet_steps_, quiet_samples_};
  }
  void write_back(const QuietCount& count) {
    if (count.steps == elapsed_.steps) return;
    elapsed_.steps = count.steps;
    elapsed_.samples = count.samples;
    elapsed_.previous_samples = count.previous_samples;
    elapsed_.previous_date = elapsed_.date;
    clock_.forget();
  }

  // The callbacks of the step that begins with this batch.
  void begin_step(const B& batch) {
    set_place(Place::batch_size);
    const std::int64_t size = size_of(batch);
    set_place(Place::loop);
    elapsed_.step_samples = size;
    elapsed_.last = elapsed_.steps + 1 >= stop_.steps || elapsed_.samples + size >= stop_.samples;
    loop_.set_batch(&batch);
    if (!agenda_.is_quiet(elapsed_)) run_due();
  }
  // The same where nothing is due in it, and its batch, if it is still there, was the last.
  void begin_last_step(const B* batch, std::int64_t size) {
    elapsed_.step_samples = size;
    loop_.set_batch(batch);
  }
  void set_batch(const B* batch) noexcept { loop_.set_batch(batch); }

  // Why the run ends with the step, as far as its callbacks and the time go.
  enum class End { none, stopped, interrupted };
  End ends_after_step() {
    const bool knows_time = clock_.look(elapsed_);
    if (options_.arbiter) [[unlikely]]
      arbitrate_stop();
    if (elapsed_.last || loop_.stop_iteration) [[unlikely]]
      return End::stopped;
    if (is_interrupted()) [[unlikely]]
      return End::interrupted;
    if (!knows_time) [[likely]]
      return End::none;
    return clock_.time_after_step(elapsed_) >= stop_.time ? End::stopped : End::none;
  }

  // Whether a signal has come, which the result will tell.
  bool is_interrupted() {
    if (signals_ask() || options_.arbiter) [[unlikely]]
      heed_signals();
    return signal_ != 0;
  }
  // Whether a callback saves where a signal asks for it.
  bool saves() const {
    for (const Entry& task : tasks_) {
      for (const Callback<S, B>& callback : task.callbacks) {
        if (callback.saves()) return true;
      }
    }
    return false;
  }

  // A step after which a signal ends the run: it is saved as if the run went on, so what last() brings comes after
  // that.
  void end_interrupted_step() {
    end_step();
    is_saved_ = true;
    run_last_after_all();
  }

  // What last() brings where the step has turned out to be the last only now, or a stop has skipped it.
  void run_last() {
    if (!agenda_.awaits_end() || (elapsed_.last && !loop_.stop_iteration)) return;
    elapsed_.last = true;
    agenda_.ask_at_end(
        elapsed_, [&](const auto& traits) { before_asking(traits); },
        [&](std::size_t task) { run_rest(tasks_[task]); });
  }

  // The step is over, and what it has logged is on its way.
  void end_step() {
    if (!at_step_end_.empty()) [[unlikely]]
      run_deferred(at_step_end_);
    const bool leaves_news = !loop_.logs.empty() || !journal_.is_empty();
    if (leaves_news) journal_.end_step(elapsed_, loop_.logs);
    if (!after_step_.empty()) [[unlikely]]
      run_deferred(after_step_);
    elapsed_.count(elapsed_.step_samples);
    if (clock_.end_step(elapsed_)) [[unlikely]]
      clock_.plan(elapsed_, lowest(stop_.time, aim_.time, agenda_.wake().time));
    lane_.end_step();
    if (leaves_news) lane_.drain(false);
    expect_quiet();
  }

  // Everything that was queued is done, and has been seen.
  void settle() {
    bring_device();
    elapsed_.date = clock_.now();
  }

  LoopResult<S> finish() {
    if (std::exchange(finished_, true)) {
      throw Error(ErrorCode::invalid_argument, "finish: the run has been finished, and has handed over its state");
    }
    const InterruptScope signals(options_.catch_signals, saves());
    try {
      if (!std::exchange(over_, true)) run_last_after_all();
    } catch (...) {
      fail(std::current_exception());
    }
    if (const std::exception_ptr error = end()) throw_error(error, describe());
    elapsed_.last = false;
    return {std::move(state_),
            std::move(journal_.history()),
            elapsed_,
            std::move(journal_.outputs()),
            std::move(options_.metadata),
            signal_ != 0 || options_.arbiter || !heeds_signals_ ? signal_ : clock_.interrupt()};
  }

  // Saves what there is, lets the others end, and throws.
  [[noreturn]] void fail(const std::exception_ptr& cause) {
    // The step was whole, and only the next batch failed.
    if (place_ == Place::next_batch) {
      journal_.end_step(elapsed_, loop_.logs);
      elapsed_.count(elapsed_.step_samples);
    }
    const std::string where = describe();
    loop_.failed_between_steps = place_ != Place::loop && running() == nullptr && !lane_.is_launching() &&
                                 elapsed_.steps > options_.elapsed.steps;
    loop_.failed = true;
    journal_.set_failing();
    if (journal_.showing() == nullptr && running() != nullptr) journal_.fail(running()->observer());
    journal_.forget_showing();
    loop_.logs.clear();
    journal_.drop_step();
    at_step_end_.clear();
    after_step_.clear();
    try {
      bring_device();
    } catch (...) {
      // A second error, mostly of the same device, tells nothing new.
      loop_.failed_between_steps = false;
    }
    lane_.drain(true);
    elapsed_.date = clock_.now();
    over_ = finished_ = true;
    (void)end();
    throw_error(cause, where);
  }

  Elapsed completed() const override {
    Elapsed elapsed = elapsed_;
    if (between_steps_) return elapsed;
    elapsed.count(elapsed.step_samples);
    elapsed.date = clock_.now();
    return elapsed;
  }
  void at_step_end(std::function<void()> f) override {
    if (between_steps_) return f();
    at_step_end_.push_back({running_, std::move(f)});
  }
  void after_step(std::function<void()> f) override {
    if (between_steps_) return f();
    after_step_.push_back({running_, std::move(f)});
  }

  void persist(Archive& archive) override {
    Elapsed elapsed = completed();
    std::int64_t batches = first_batch_ + elapsed.steps - options_.elapsed.steps;
    archive("elapsed", elapsed)("batches", batches);
    if (archive.is_reading()) go_on_from(elapsed, batches, archive);
    if (persist_dataset_) archive.within("dataset", [&] { persist_dataset_(archive); });
    if constexpr (is_persistent<S>) archive("state", state_);
    archive.within("history", [&] { journal_.history().persist(archive); });
    archive("first_record", loop_.first_record_)("stopped", loop_.stop_iteration);
    persist_tasks(archive);
  }

 private:
  struct Entry {
    std::vector<Callback<S, B>> callbacks;
    // The step in which they ran last, and how many of them; a stop may have cut them short.
    std::int64_t ran_at = -1;
    std::size_t ran = 0;
  };

  // What a callback leaves to be called when its step is over.
  struct Deferred {
    const Callback<S, B>* callback;
    std::function<void()> run;
  };

  static std::vector<Schedule> schedules_of(const std::vector<Task<S, B>>& tasks) {
    std::vector<Schedule> schedules;
    for (const Task<S, B>& task : tasks) schedules.push_back(task.schedule);
    return schedules;
  }

  void expect_quiet() {
    // As mostly where something is due in each step.
    if (agenda_.wake().steps <= elapsed_.steps || options_.arbiter) [[likely]] {
      quiet_steps_ = 0;
      return;
    }
    const bool timely = elapsed_.time() >= agenda_.wake().time;
    quiet_steps_ = timely ? 0 : lowest(agenda_.wake().steps, stop_.steps - 1, aim_.steps, clock_.next_look() - 1);
    quiet_samples_ = lowest(agenda_.wake().samples, stop_.samples, aim_.samples);
  }

  void heed_signals() {
    if (!heeds_signals_) return;
    const int signal = clock_.interrupt();
    const bool ends = signal != 0 && signal_ == 0;
    if (signal != 0) signal_ = signal;
    if (!saves() || !(take_save_signal() || ends)) return;
    for (Entry& task : tasks_) {
      for (Callback<S, B>& callback : task.callbacks) run_hook(callback, [&] { callback.on_save(loop_); });
    }
  }

  void run_deferred(std::vector<Deferred>& calls) {
    bring_device();
    for (const Deferred& call : std::exchange(calls, {})) {
      running_ = call.callback;
      call.run();
      running_ = nullptr;
    }
  }

  void go_on_from(const Elapsed& elapsed, std::int64_t batches, Archive& archive) {
    expect_counts(elapsed, batches);
    clock_.start(elapsed);
    elapsed_ = options_.elapsed = clock_.started();
    archive.shift_dates(elapsed_.date - elapsed.date);
    first_batch_ = batches;
    stop_ = Wake::at(options_.stop, elapsed_.date_start);
    agenda_.restart(elapsed_.date_start);
  }

  // Each under its name, so that another task beside it makes no difference.
  void persist_tasks(Archive& archive) {
    UniqueNames schedules, callbacks;
    archive.within("schedules", [&] {
      for (std::size_t i = 0; i < tasks_.size(); ++i) {
        Schedule& schedule = agenda_.schedule(i);
        if (schedule.traits().persists) archive(schedules(to_string(schedule)), schedule);
      }
    });
    archive.within("callbacks", [&] {
      for (Entry& task : tasks_) {
        for (Callback<S, B>& callback : task.callbacks) {
          if (callback.remembers()) archive(callbacks(callback.name()), callback);
        }
      }
    });
  }

  void before_asking(const Agenda::Traits& traits) {
    if (traits.asks_user) lane_.launch();
    if (traits.reads_clock) clock_.read(elapsed_);
  }

  // A stop that is refused has skipped what comes after it in the step.
  void arbitrate_stop() {
    for (bool asked = true; asked;) {
      asked = loop_.stop_iteration;
      loop_.stop_iteration = options_.arbiter->stop(asked, elapsed_);
      if (!asked || loop_.stop_iteration) return;
      for (Entry& task : tasks_) {
        if (task.ran_at == elapsed_.steps && !loop_.stop_iteration) run_task(task);
      }
    }
  }

  void run_due() {
    agenda_.ask(
        elapsed_, [&](const auto& traits) { before_asking(traits); },
        [&](std::size_t task) {
          tasks_[task].ran = 0;
          tasks_[task].ran_at = elapsed_.steps;
          if (!loop_.stop_iteration) run_task(tasks_[task]);
        });
  }
  void run_task(Entry& task) {
    while (task.ran < task.callbacks.size()) {
      run_callback(task.callbacks[task.ran++]);
      if (loop_.stop_iteration) return;
    }
  }
  // What has not run in this step.
  void run_rest(Entry& task) {
    if (std::exchange(task.ran_at, elapsed_.steps) != elapsed_.steps) task.ran = 0;
    while (task.ran < task.callbacks.size()) {
      Callback<S, B>& callback = task.callbacks[task.ran++];
      if (!is_saved_ || !callback.saves()) run_callback(callback);
    }
  }
  // Of a run that is finished where it was held, after its latest step.
  void run_last_after_all() {
    if (!agenda_.awaits_end() || elapsed_.steps == options_.elapsed.steps) return;
    const Elapsed completed = elapsed_;
    elapsed_.step_samples = elapsed_.samples - elapsed_.previous_samples;
    elapsed_.samples = elapsed_.previous_samples;
    elapsed_.date = elapsed_.previous_date;
    --elapsed_.steps;
    if (!is_saved_) loop_.set_batch(nullptr);
    run_last();
    run_deferred(at_step_end_);
    if (!loop_.logs.empty() || !journal_.is_empty()) journal_.end_step(elapsed_, loop_.logs);
    run_deferred(after_step_);
    elapsed_ = completed;
    settle();
  }

  void run_callback(Callback<S, B>& callback) {
    switch (callback.kind()) {
      case CallbackKind::observer:
        journal_.add(callback.observer());
        return;
      case CallbackKind::device_step:
        if (callback.sees_elapsed()) clock_.read(elapsed_);
        running_ = &callback;
        callback.enqueue(loop_, lane_);
        held_ = &callback;
        break;
      case CallbackKind::barrier:
        bring_device();
        if (callback.sees_elapsed()) clock_.read(elapsed_);
        running_ = &callback;
        callback.run(loop_);
        if (!loop_.logs.empty()) loop_.logs.fetch();
        break;
    }
    running_ = nullptr;
  }

  // Of on_start and on_end: nothing is held back there.
  void run_at_once(Callback<S, B>& callback) {
    if (callback.kind() == CallbackKind::observer) return callback.observer()->observe(elapsed_, loop_.logs);
    callback.run(loop_);
  }
  template <class F>
  void run_hook(Callback<S, B>& callback, F&& hook) {
    running_ = &callback;
    hook();
    running_ = nullptr;
  }

  // Every on_end but those of callbacks that have failed. What the first of them to fail has thrown.
  std::exception_ptr end() {
    std::exception_ptr error;
    const Callback<S, B>* first = nullptr;
    between_steps_ = true;
    loop_.set_batch(nullptr);
    elapsed_.step_samples = 0;
    elapsed_.last = false;
    const auto run = [&](Callback<S, B>& callback, auto&& on_end) {
      if (journal_.has_failed(callback.observer())) return;
      try {
        on_end();
      } catch (...) {
        loop_.failed = true;
        if (!error) first = &callback;
        if (!error) error = std::current_exception();
      }
    };
    for (Entry& task : tasks_) {
      for (Callback<S, B>& callback : task.callbacks) {
        if (loop_.failed_between_steps) run(callback, [&] { callback.on_save(loop_); });
      }
    }
    for (Entry& task : tasks_) {
      for (Callback<S, B>& callback : task.callbacks) run(callback, [&] { callback.on_end(loop_); });
    }
    for (Callback<S, B>& callback : options_.on_end) run(callback, [&] { run_at_once(callback); });
    running_ = first;
    return error;
  }

  void bring_device() {
    if constexpr (std::is_base_of_v<State, S>) {
      lane_.bring(&state_.stream());
    } else {
      lane_.bring(nullptr);
    }
  }

  // The callback that is running, or whose held-back calls are being launched.
  const Callback<S, B>* running() const { return lane_.is_launching() ? held_ : running_; }

  // What is running: "task 2, every(1000): giro::Checkpoint, at step 3000".
  std::string describe() const {
    const bool shows = journal_.showing_step() != Journal::kNoStep;
    const std::string step = ", at step " + std::to_string(shows ? journal_.showing_step() : elapsed_.steps);
    const Observer* const observer = shows                  ? journal_.showing()
                                     : running() != nullptr ? running()->observer()
                                                            : nullptr;
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      const auto task = [&] { return "task " + std::to_string(i + 1) + ", " + to_string(agenda_.schedule(i)) + ": "; };
      if (agenda_.asking() == i) return task() + "its schedule" + step;
      for (const Callback<S, B>& callback : tasks_[i].callbacks) {
        if (observer != nullptr && callback.observer() == observer) return task() + callback.name() + step;
      }
    }
    if (shows) return "the logs" + step;
    if (running() != nullptr) return "on_start or on_end: " + running()->name() + step;
    return detail::to_string(place_) + step;
  }
  [[noreturn]] void throw_error(const std::exception_ptr& cause, const std::string& where) {
    const auto [code, what] = explain_exception(cause);
    elapsed_.last = false;
    throw LoopError(code, where + ": " + what, cause, std::move(state_), elapsed_, std::move(journal_.history()),
                    std::move(journal_.outputs()), std::move(options_.metadata));
  }

  S state_;
  LoopOptions<S, B> options_;
  Journal journal_;
  RunClock clock_;
  Elapsed elapsed_;
  Wake stop_, aim_;
  Agenda agenda_;
  std::vector<Entry> tasks_;
  LoopState<S, B> loop_;
  DeviceLane lane_;
  std::int64_t quiet_steps_ = 0, quiet_samples_ = 0;  // the steps before both of them are quiet
  std::function<void(Archive&)> persist_dataset_;
  std::int64_t first_batch_ = 0;
  std::vector<Deferred> at_step_end_, after_step_;
  bool between_steps_ = true;  // rather than in a step, at whose end elapsed_ is counted
  bool heeds_signals_;
  bool is_saved_ = false;  // and ends
  bool aimed_ = false, over_ = false, finished_ = false;
  int signal_ = 0;                        // that has interrupted the run
  const Callback<S, B>* held_ = nullptr;  // the device step that was queued last
  const Callback<S, B>* running_ = nullptr;
  Place place_ = Place::loop;
};

}  // namespace detail
}  // namespace giro
