#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <giro/loop/data/batch_size.h>
#include <giro/loop/interrupt.h>
#include <giro/loop/loop_error.h>
#include <giro/loop/loop_result.h>
#include <giro/loop/place.h>
#include <giro/loop/quiet_count.h>
#include <giro/loop/run_memory.h>
#include <giro/loop/run_parts.h>
#include <giro/loop/run_tasks.h>
#include <giro/loop/task.h>
#include <giro/loop/time/wake.h>
#include <giro/runtime/archive.h>

namespace giro::detail {

// A run but for the dataset: what happens in a step, what it leaves behind, and what becomes of an error.
template <class S, class B>
class RunCore final : RunMemory {
 public:
  RunCore(S state, const std::vector<Task<S, B>>& tasks, LoopOptions<S, B> options)
      : run_(std::move(state), std::move(options), this),
        tasks_(run_, tasks),
        stop_(Wake::at(run_.options.stop, run_.elapsed.date_start)),
        heeds_signals_(!is_in_saving_loop()) {
    run_.clock.watch(tasks_.agenda().reads_clock() || stop_.time < Wake().time);
  }

  S& state() noexcept { return run_.state; }
  LoopOptions<S, B>& options() noexcept { return run_.options; }
  const Elapsed& elapsed() const noexcept { return run_.elapsed; }
  const History& history() const noexcept { return run_.journal.history(); }
  const Outputs& outputs() const noexcept { return run_.journal.outputs(); }

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
    if (!std::exchange(aimed_, true)) run_.lane.set_steps_per_execution(run_.options.steps_per_execution);
    aim_ = Wake::at(until, run_.elapsed.date_start);
    if (aim_.time < Wake().time) run_.clock.watch(true);
    expect_quiet();
  }
  bool is_at_aim() const { return aim_.reached(run_.elapsed); }
  // Also where a run is resumed that a callback has stopped.
  bool is_at_stop() const { return run_.loop.stop_iteration || stop_.reached(run_.elapsed); }
  void check_none_asked_for() const {
    if (stop_.steps == Wake().steps && stop_.samples == Wake().samples) return;
    throw Error(ErrorCode::invalid_argument,
                "the dataset is empty, expected batches until " + to_string(run_.options.stop));
  }
  // What happens outside of callbacks from now on.
  void set_place(Place place) noexcept { place_ = place; }

  // The date of the step at hand, for whoever looks at elapsed().
  void read_clock() { run_.clock.read(run_.elapsed); }

  // Before the first batch is asked for: an interrupted run may be brought back.
  void resume() {
    const Partitioner* const partitioner = run_.loop.partitioner();
    if (partitioner != nullptr && partitioner->size() > 1) {
      partitioner->expect_same("the loop", "stop: " + to_string(run_.options.stop) + '\n' + tasks_.listing());
    }
    tasks_.on_resume();
  }

  // Whether a callback stops the run before its first step.
  bool start(const B& batch) {
    run_.loop.set_batch(&batch);
    tasks_.on_start();
    run_.loop.logs.clear();
    between_steps_ = false;
    return run_.options.arbiter ? run_.options.arbiter->stop(run_.loop.stop_iteration, run_.elapsed)
                                : run_.loop.stop_iteration;
  }

  std::int64_t size_of(const B& batch) {
    if (run_.options.batch_size_fn) [[unlikely]]
      return run_.options.batch_size_fn(batch);
    return batch_size(batch);
  }

  // The steps in which there is nothing to do but to count them.
  bool may_be_quiet() const { return run_.elapsed.steps < quiet_steps_; }
  QuietCount quiet_count() const {
    return {run_.elapsed.steps, run_.elapsed.samples, run_.elapsed.previous_samples, quiet_steps_, quiet_samples_};
  }
  void write_back(const QuietCount& count) {
    if (count.steps == run_.elapsed.steps) return;
    run_.elapsed.steps = count.steps;
    run_.elapsed.samples = count.samples;
    run_.elapsed.previous_samples = count.previous_samples;
    run_.elapsed.previous_date = run_.elapsed.date;
    run_.clock.forget();
  }

  // The callbacks of the step that begins with this batch.
  void begin_step(const B& batch) {
    set_place(Place::batch_size);
    const std::int64_t size = size_of(batch);
    set_place(Place::loop);
    run_.elapsed.step_samples = size;
    run_.elapsed.last = run_.elapsed.steps + 1 >= stop_.steps || run_.elapsed.samples + size >= stop_.samples;
    run_.loop.set_batch(&batch);
    if (!tasks_.agenda().is_quiet(run_.elapsed)) tasks_.run_due();
  }
  // The same where nothing is due in it, and its batch, if it is still there, was the last.
  void begin_last_step(const B* batch, std::int64_t size) {
    run_.elapsed.step_samples = size;
    run_.loop.set_batch(batch);
  }
  void set_batch(const B* batch) noexcept { run_.loop.set_batch(batch); }

  // Why the run ends with the step, as far as its callbacks and the time go.
  enum class End { none, stopped, interrupted };
  End ends_after_step() {
    const bool knows_time = run_.clock.look(run_.elapsed);
    if (run_.options.arbiter && tasks_.may_ask_to_stop()) [[unlikely]]
      arbitrate_stop();
    if (run_.elapsed.last || run_.loop.stop_iteration) [[unlikely]]
      return End::stopped;
    if (is_interrupted()) [[unlikely]]
      return End::interrupted;
    if (!knows_time) [[likely]]
      return End::none;
    return run_.clock.time_after_step(run_.elapsed) >= stop_.time ? End::stopped : End::none;
  }

  // Whether a signal has come, which the result will tell.
  bool is_interrupted() {
    if (signals_ask() || run_.options.arbiter) [[unlikely]]
      heed_signals();
    return signal_ != 0;
  }
  // Whether a callback saves where a signal asks for it.
  bool saves() const { return tasks_.saves(); }

  // A step after which a signal ends the run: it is saved as if the run went on, so what last() brings comes after
  // that.
  void end_interrupted_step() {
    end_step();
    is_saved_ = true;
    run_last_after_all();
  }

  // What last() brings where the step has turned out to be the last only now, or a stop has skipped it.
  void run_last() {
    if (!tasks_.agenda().awaits_end() || (run_.elapsed.last && !run_.loop.stop_iteration)) return;
    run_.elapsed.last = true;
    tasks_.run_last(is_saved_);
  }

  // The step is over, and what it has logged is on its way.
  void end_step() {
    tasks_.run_step_end();
    const bool leaves_news = !run_.loop.logs.empty() || !run_.journal.is_empty();
    if (leaves_news) run_.journal.end_step(run_.elapsed, run_.loop.logs);
    tasks_.run_after_step();
    run_.elapsed.count(run_.elapsed.step_samples);
    if (run_.clock.end_step(run_.elapsed)) [[unlikely]]
      run_.clock.plan(run_.elapsed, lowest(stop_.time, aim_.time, tasks_.agenda().wake().time));
    run_.lane.end_step();
    if (leaves_news) run_.lane.drain(false);
    expect_quiet();
  }

  // Everything that was queued is done, and has been seen.
  void settle() {
    run_.bring_device();
    run_.elapsed.date = run_.clock.now();
  }

  LoopResult<S> finish() {
    if (std::exchange(finished_, true)) {
      throw Error(ErrorCode::invalid_argument, "finish: the run has been finished, and has handed over its state");
    }
    const InterruptScope signals(run_.options.catch_signals, saves());
    try {
      if (!std::exchange(over_, true)) run_last_after_all();
    } catch (...) {
      fail(std::current_exception());
    }
    if (const std::exception_ptr error = end()) {
      if (run_.options.arbiter) run_.options.arbiter->set_failed();
      throw_error(error, tasks_.describe(place_));
    }
    leave();
    run_.elapsed.last = false;
    return {std::move(run_.state),
            std::move(run_.journal.history()),
            run_.elapsed,
            std::move(run_.journal.outputs()),
            std::move(run_.options.metadata),
            signal_};
  }

  // Saves what there is, lets the others end, and throws.
  [[noreturn]] void fail(const std::exception_ptr& cause) {
    // The step was whole, and only the next batch failed.
    if (place_ == Place::next_batch) {
      run_.journal.end_step(run_.elapsed, run_.loop.logs);
      run_.elapsed.count(run_.elapsed.step_samples);
    }
    const std::string where = tasks_.describe(place_);
    run_.loop.failed_between_steps = place_ != Place::loop && tasks_.running() == nullptr &&
                                     !run_.lane.is_launching() && run_.elapsed.steps > run_.options.elapsed.steps;
    run_.loop.failed = true;
    if (run_.options.arbiter) run_.options.arbiter->set_failed();
    run_.journal.set_failing();
    if (run_.journal.showing() == nullptr && tasks_.running() != nullptr)
      run_.journal.fail(tasks_.running()->observer());
    run_.journal.forget_showing();
    run_.loop.logs.clear();
    run_.journal.drop_step();
    tasks_.drop_step();
    try {
      run_.bring_device();
    } catch (...) {
      // A second error, mostly of the same device, tells nothing new.
      run_.loop.failed_between_steps = false;
    }
    run_.lane.drain(true);
    run_.elapsed.date = run_.clock.date();
    over_ = finished_ = true;
    (void)end();
    throw_error(cause, where);
  }

  Elapsed completed() const override {
    Elapsed elapsed = run_.elapsed;
    if (between_steps_) return elapsed;
    elapsed.count(elapsed.step_samples);
    elapsed.date = run_.clock.date();
    return elapsed;
  }
  void at_step_end(std::function<void()> f) override {
    if (between_steps_) return f();
    tasks_.at_step_end(std::move(f));
  }
  void after_step(std::function<void()> f) override {
    if (between_steps_) return f();
    tasks_.after_step(std::move(f));
  }

  void persist(Archive& archive) override {
    Elapsed elapsed = completed();
    std::int64_t batches = first_batch_ + elapsed.steps - run_.options.elapsed.steps;
    archive("elapsed", elapsed)("batches", batches);
    if (archive.is_reading()) go_on_from(elapsed, batches, archive);
    if (persist_dataset_) archive.within("dataset", [&] { persist_dataset_(archive); });
    if constexpr (is_persistent<S>) archive("state", run_.state);
    archive.within("history", [&] { run_.journal.history().persist(archive); });
    archive("first_record", run_.loop.first_record_)("stopped", run_.loop.stop_iteration);
    tasks_.persist(archive);
  }

 private:
  void expect_quiet() {
    // As mostly where something is due in each step.
    if (tasks_.agenda().wake().steps <= run_.elapsed.steps || run_.options.arbiter) [[likely]] {
      quiet_steps_ = 0;
      return;
    }
    const bool timely = run_.elapsed.time() >= tasks_.agenda().wake().time;
    quiet_steps_ =
        timely ? 0 : lowest(tasks_.agenda().wake().steps, stop_.steps - 1, aim_.steps, run_.clock.next_look() - 1);
    quiet_samples_ = lowest(tasks_.agenda().wake().samples, stop_.samples, aim_.samples);
  }

  void heed_signals() {
    if (!heeds_signals_) return;
    const int signal = run_.clock.interrupt();
    const bool ends = signal != 0 && signal_ == 0;
    if (signal != 0) signal_ = signal;
    if (!saves() || !(run_.clock.take_save_signal() || ends)) return;
    tasks_.on_save();
  }

  void go_on_from(const Elapsed& elapsed, std::int64_t batches, Archive& archive) {
    expect_counts(elapsed, batches);
    run_.clock.start(elapsed);
    run_.elapsed = run_.options.elapsed = run_.clock.started();
    archive.shift_dates(run_.elapsed.date - elapsed.date);
    first_batch_ = batches;
    stop_ = Wake::at(run_.options.stop, run_.elapsed.date_start);
    tasks_.restart();
  }

  // A stop that is refused has skipped what comes after it in the step.
  void arbitrate_stop() {
    for (bool asked = true; asked;) {
      asked = run_.loop.stop_iteration;
      run_.loop.stop_iteration = run_.options.arbiter->stop(asked, run_.elapsed);
      if (!asked || run_.loop.stop_iteration) return;
      tasks_.run_skipped();
    }
  }

  // Of a run that is finished where it was held, after its latest step.
  void run_last_after_all() {
    if (!tasks_.agenda().awaits_end() || run_.elapsed.steps == run_.options.elapsed.steps) return;
    const Elapsed completed = run_.elapsed;
    run_.elapsed.step_samples = run_.elapsed.samples - run_.elapsed.previous_samples;
    run_.elapsed.samples = run_.elapsed.previous_samples;
    run_.elapsed.date = run_.elapsed.previous_date;
    --run_.elapsed.steps;
    if (!is_saved_) run_.loop.set_batch(nullptr);
    run_last();
    tasks_.run_step_end();
    if (!run_.loop.logs.empty() || !run_.journal.is_empty()) run_.journal.end_step(run_.elapsed, run_.loop.logs);
    tasks_.run_after_step();
    run_.elapsed = completed;
    settle();
  }

  // Signals that have come since the latest step are in the result, too.
  void leave() {
    if (run_.group) {
      try {
        const int signal = run_.group->leave();
        if (signal_ == 0 && heeds_signals_) signal_ = signal;
      } catch (...) {
        throw_error(std::current_exception(), tasks_.describe(place_));
      }
    } else if (signal_ == 0 && heeds_signals_ && !run_.options.arbiter) {
      signal_ = run_.clock.interrupt();
    }
  }

  // Every on_end. What the first of them to fail has thrown.
  std::exception_ptr end() {
    between_steps_ = true;
    run_.loop.set_batch(nullptr);
    run_.elapsed.step_samples = 0;
    run_.elapsed.last = false;
    return tasks_.end();
  }

  [[noreturn]] void throw_error(const std::exception_ptr& cause, std::string where) {
    const auto [code, what] = explain_exception(cause);
    const Partitioner* const partitioner = run_.loop.partitioner();
    if (partitioner != nullptr && partitioner->size() > 1) {
      where =
          "rank " + std::to_string(partitioner->rank()) + " of " + std::to_string(partitioner->size()) + ", " + where;
    }
    run_.elapsed.last = false;
    throw LoopError(code, where + ": " + what, cause, std::move(run_.state), run_.elapsed,
                    std::move(run_.journal.history()), std::move(run_.journal.outputs()),
                    std::move(run_.options.metadata));
  }

  RunParts<S, B> run_;
  RunTasks<S, B> tasks_;
  Wake stop_, aim_;
  std::int64_t quiet_steps_ = 0, quiet_samples_ = 0;  // the steps before both of them are quiet
  std::function<void(Archive&)> persist_dataset_;
  std::int64_t first_batch_ = 0;
  bool between_steps_ = true;  // rather than in a step, at whose end run_.elapsed is counted
  bool heeds_signals_;
  bool is_saved_ = false;  // and ends
  bool aimed_ = false, over_ = false, finished_ = false;
  int signal_ = 0;  // that has interrupted the run
  Place place_ = Place::loop;
};

}  // namespace giro::detail
