#pragma once

#include <algorithm>
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
#include <giro/runtime/files/archive.h>

namespace giro::detail {

// A run without the dataset: what happens in a step, what it produces, and how errors are handled. Code that every step
// runs is inlined, rare code is not: an empty step takes a dozen nanoseconds, and a call takes one of them.
template <class S, class B>
class RunCore final : RunMemory {
 public:
  RunCore(S&& state, const std::vector<Task<S, B>>& tasks, LoopOptions<S, B>&& options)
      : tasks_(std::move(state), tasks, std::move(options), this),
        stop_(Wake::at(run().options.stop, run().elapsed)),
        heeds_signals_(!is_in_saving_loop()) {
    run().clock.watch(tasks_.agenda().reads_clock() || stop_.time < Wake().time);
  }

  S& state() noexcept { return run().state; }
  LoopOptions<S, B>& options() noexcept { return run().options; }
  const Elapsed& elapsed() const noexcept { return run().elapsed; }
  const History& history() const noexcept { return run().journal.history(); }
  const Outputs& outputs() const noexcept { return run().journal.outputs(); }

  // `persist` saves or restores what the dataset remembers. `first_batch` is the number of batches it has skipped when
  // it begins.
  void set_dataset(std::function<void(Archive&)> persist, std::int64_t first_batch) {
    persist_dataset_ = std::move(persist);
    first_batch_ = first_batch;
  }
  // The batch to begin with, once resume() has been called.
  std::int64_t first_batch() const noexcept { return first_batch_; }

  bool has_ended() const noexcept { return over_; }
  int interrupted() const noexcept { return signal_; }
  void set_ended(StopReason why) noexcept {
    over_ = true;
    ended_ = why;
    after_stop_ =
        why == StopReason::stopped && !run().loop.stop_iteration && run().elapsed.steps > run().options.elapsed.steps;
  }

  void extend(const Period& stop, History history, Outputs outputs) {
    if (!after_stop_ || finished_) {
      throw Error(ErrorCode::invalid_argument,
                  "extend: expected a run that has stopped at LoopOptions::stop, found one " +
                      std::string(finished_ ? "that is finished" : "that has not") + ", at step " +
                      std::to_string(run().elapsed.steps));
    }
    over_ = false;
    ended_ = StopReason::reached;
    run().elapsed.last = false;
    run().options.stop = stop;
    stop_ = Wake::at(stop, run().elapsed);
    if (stop_.time < Wake().time) run().clock.watch(true);
    run().journal.history() = std::move(history);
    run().journal.outputs() = std::move(outputs);
    run().loop.first_record_ = run().journal.history().size();
  }
  // Whether the current batch belongs to the step at which the run stopped.
  bool is_after_stop() const noexcept { return after_stop_; }
  void leave_stop() noexcept {
    after_stop_ = false;
    set_batch(nullptr);
    set_place(Place::dataset);
  }

  void aim_at(const Period& until) {
    if (!std::exchange(aimed_, true)) run().lane.set_steps_per_execution(run().options.steps_per_execution);
    aim_ = Wake::at(until, run().elapsed);
    if (aim_.time < Wake().time) run().clock.watch(true);
    expect_quiet();
  }
  bool is_at_aim() const { return aim_.reached(run().elapsed); }
  // Also true for a resumed run that a callback had stopped.
  bool is_at_stop() const { return run().loop.stop_iteration || stop_.reached(run().elapsed); }
  void check_none_asked_for() const {
    if (stop_.steps == Wake().steps && stop_.samples == Wake().samples) return;
    throw Error(ErrorCode::invalid_argument,
                "the dataset is empty, expected batches until " + to_string(run().options.stop));
  }
  // Sets what the run does outside of callbacks from now on, for error messages.
  void set_place(Place place) noexcept { place_ = place; }

  // Sets the date of the current step, for callers that read elapsed().
  void read_clock() { run().clock.read(run().elapsed); }

  // Call this before the first batch is taken; it may restore an interrupted run.
  void resume() {
    const Partitioner* const partitioner = run().loop.partitioner();
    if (partitioner != nullptr && partitioner->size() > 1) {
      partitioner->expect_same("the loop", "stop: " + to_string(run().options.stop) + '\n' + tasks_.listing());
    }
    tasks_.on_claim();
    tasks_.on_resume();
  }

  // Runs on_start. Returns whether a callback stops the run before its first step.
  bool start(const B& batch) {
    run().loop.set_batch(&batch);
    tasks_.on_start();
    run().loop.logs.clear();
    between_steps_ = false;
    return run().options.arbiter ? run().options.arbiter->stop(run().loop.stop_iteration, run().elapsed)
                                 : run().loop.stop_iteration;
  }

  std::int64_t size_of(const B& batch) {
    if (run().options.batch_size_fn) [[unlikely]]
      return run().options.batch_size_fn(batch);
    return batch_size(batch);
  }

  // Quiet steps need nothing but counting.
  bool may_be_quiet() const { return run().elapsed.steps < quiet_steps_; }
  QuietCount quiet_count() const {
    return {run().elapsed.steps, run().elapsed.samples, run().elapsed.previous_samples, quiet_steps_, quiet_samples_};
  }
  void write_back(const QuietCount& count) {
    if (count.steps == run().elapsed.steps) return;
    run().elapsed.steps = count.steps;
    run().elapsed.samples = count.samples;
    run().elapsed.previous_samples = count.previous_samples;
    run().elapsed.previous_date = run().elapsed.date;
    run().clock.forget();
  }

  // Runs the callbacks of the step that begins with this batch.
  void begin_step(const B& batch) {
    set_place(Place::batch_size);
    const std::int64_t size = size_of(batch);
    set_place(Place::loop);
    run().elapsed.step_samples = size;
    run().elapsed.last = run().elapsed.steps + 1 >= stop_.steps || run().elapsed.samples + size >= stop_.samples;
    run().loop.set_batch(&batch);
    if (!tasks_.agenda().is_quiet(run().elapsed)) tasks_.run_due();
  }
  // The same for a quiet step that turned out to be the dataset's last. `batch` is null if it is gone.
  void begin_last_step(const B* batch, std::int64_t size) {
    run().elapsed.step_samples = size;
    run().loop.set_batch(batch);
  }
  void set_batch(const B* batch) noexcept { run().loop.set_batch(batch); }

  // Why the run ends with this step, as far as callbacks, signals and the time decide it.
  enum class End { none, stopped, interrupted };
  End ends_after_step() {
    const bool knows_time = run().clock.look(run().elapsed);
    if (run().options.arbiter && !run().group) [[unlikely]]
      arbitrate_stop();
    if (run().elapsed.last || run().loop.stop_iteration) [[unlikely]]
      return End::stopped;
    if (is_interrupted()) [[unlikely]]
      return End::interrupted;
    if (run().group && run().group->is_stop_agreed()) [[unlikely]] {
      run().loop.stop_iteration = true;
      return End::stopped;
    }
    if (!knows_time) [[likely]]
      return End::none;
    return run().clock.time_after_step(run().elapsed) >= stop_.time ? End::stopped : End::none;
  }

  // Whether a signal has come; the result will report it.
  [[gnu::always_inline]] bool is_interrupted() {
    if (has_pending_signals() || run().options.arbiter) [[unlikely]]
      heed_signals();
    return signal_ != 0;
  }
  // Whether a callback saves when a signal asks for it.
  bool saves() const { return tasks_.saves(); }

  // Ends a step after which a signal ends the run. The step is saved as if the run continued, so the callbacks of
  // last() run after the save.
  void end_interrupted_step() {
    end_step();
    is_saved_ = true;
    run_last_after_all();
  }

  // Runs the callbacks of last() if only now the step is known to be the last, or a stop has skipped them.
  void run_last() {
    if (!tasks_.agenda().awaits_end() || (run().elapsed.last && !run().loop.stop_iteration)) return;
    run().elapsed.last = true;
    tasks_.run_last(is_saved_);
  }

  // Ends the step and passes its logs on.
  [[gnu::always_inline]] void end_step() {
    tasks_.run_step_end();
    const bool leaves_news = !run().loop.logs.empty() || !run().journal.is_empty();
    if (leaves_news) run().journal.end_step(run().elapsed, run().loop.logs);
    tasks_.run_after_step();
    run().elapsed.count(run().elapsed.step_samples);
    if (run().clock.end_step(run().elapsed)) [[unlikely]]
      run().clock.plan(run().elapsed, lowest(stop_.time, aim_.time, tasks_.agenda().wake().time));
    run().lane.end_step();
    if (leaves_news) run().lane.drain(false);
    expect_quiet();
  }

  // Waits until all queued work is done and observed.
  void settle() {
    run().bring_device();
    run().elapsed.date = run().clock.now();
  }

  LoopResult<S> finish();

  // Saves what it can, runs the on_end of all other callbacks, and throws.
  [[noreturn]] void fail(const std::exception_ptr& cause);

  Elapsed completed() const override {
    Elapsed elapsed = run().elapsed;
    if (between_steps_) return elapsed;
    elapsed.count(elapsed.step_samples);
    elapsed.date = run().clock.date();
    return elapsed;
  }
  void at_step_end(std::function<void()> f) override {
    if (between_steps_) return f();
    tasks_.at_step_end(std::move(f));
  }
  void after_step(std::function<void()> f, bool first) override {
    if (between_steps_) return f();
    tasks_.after_step(std::move(f), first);
  }

  void persist(Archive& archive) override {
    Elapsed elapsed = completed();
    std::int64_t batches = first_batch_ + elapsed.steps - run().options.elapsed.steps;
    archive("elapsed", elapsed)("batches", batches);
    set_tokens_per_sample(elapsed, run().options.tokens_per_sample);
    if (archive.is_reading()) go_on_from(elapsed, batches, archive);
    if (persist_dataset_) archive.within("dataset", [&] { persist_dataset_(archive); });
    if constexpr (is_persistent<S>) archive("state", run().state);
    archive.within("history", [&] { run().journal.history().persist(archive); });
    archive("first_record", run().loop.first_record_)("stopped", run().loop.stop_iteration);
    // A damaged history may lack some records.
    run().loop.first_record_ = std::min(run().loop.first_record_, run().journal.history().size());
    tasks_.persist(archive);
  }

 private:
  RunParts<S, B>& run() noexcept { return tasks_.run(); }
  const RunParts<S, B>& run() const noexcept { return tasks_.run(); }

  [[gnu::always_inline]] void expect_quiet() {
    // The usual case: something is due in each step.
    if (tasks_.agenda().wake().steps <= run().elapsed.steps || run().options.arbiter) [[likely]] {
      quiet_steps_ = 0;
      return;
    }
    const bool timely = run().elapsed.time() >= tasks_.agenda().wake().time;
    quiet_steps_ =
        timely ? 0 : lowest(tasks_.agenda().wake().steps, stop_.steps - 1, aim_.steps, run().clock.next_look() - 1);
    quiet_samples_ = lowest(tasks_.agenda().wake().samples, stop_.samples, aim_.samples);
  }

  [[gnu::cold]] void heed_signals() {
    if (!heeds_signals_) return;
    const int signal = run().clock.interrupt();
    const bool ends = signal != 0 && signal_ == 0;
    if (signal != 0) signal_ = signal;
    if (!saves() || !(run().clock.take_save_signal() || ends)) return;
    tasks_.on_save();
  }

  void go_on_from(const Elapsed& elapsed, std::int64_t batches, Archive& archive) {
    expect_counts(elapsed, batches);
    run().clock.start(elapsed);
    run().elapsed = run().options.elapsed = run().clock.started();
    archive.shift_dates(run().elapsed.date - elapsed.date);
    first_batch_ = batches;
    stop_ = Wake::at(run().options.stop, run().elapsed);
    tasks_.restart();
  }

  // If a stop is refused, runs the callbacks that it had skipped.
  [[gnu::cold]] void arbitrate_stop() {
    for (bool asked = true; asked;) {
      asked = run().loop.stop_iteration;
      run().loop.stop_iteration = run().options.arbiter->stop(asked, run().elapsed);
      if (!asked || run().loop.stop_iteration) return;
      tasks_.run_skipped();
    }
  }

  // Runs the callbacks of last() after the latest step, for a run that is finished while paused or was interrupted.
  [[gnu::cold]] void run_last_after_all();

  // Adds a signal that has come since the latest step to the result.
  void leave();

  // Runs every on_end. Returns the first exception.
  std::exception_ptr end();

  [[noreturn]] void throw_error(const std::exception_ptr& cause, std::string where, const std::string& also = {});

  RunTasks<S, B> tasks_;
  Wake stop_, aim_;
  std::int64_t quiet_steps_ = 0, quiet_samples_ = 0;  // steps before both limits are quiet
  std::function<void(Archive&)> persist_dataset_;
  std::int64_t first_batch_ = 0;
  bool between_steps_ = true;  // false: within a step, and elapsed is counted at its end
  bool heeds_signals_;
  bool is_saved_ = false;  // after a signal that ends the run
  bool aimed_ = false, over_ = false, finished_ = false, after_stop_ = false;
  StopReason ended_ = StopReason::reached;
  int signal_ = 0;  // the signal that has interrupted the run, or 0
  Place place_ = Place::loop;
};

}  // namespace giro::detail

#include <giro/loop/run_end.h>
