#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <giro/loop/engine.h>
#include <giro/loop/interrupt.h>
#include <giro/loop/log/log_schema.h>
#include <giro/loop/step/device_queue.h>

#include "loop/run/agenda.h"
#include "loop/run/group_arbiter.h"
#include "loop/run/journal.h"

namespace giro::detail {

// A run's clock. Reading it can cost more than a step, so it is read at most once per step, and if the run has a time
// to notice, in every step shortly before that time and rarely long before it.
class RunClock {
 public:
  explicit RunClock(Arbiter& arbiter) : arbiter_(arbiter) {}

  double now() const { return arbiter_.now(); }
  // Continues where an earlier run stopped: the time in between does not count.
  void start(Elapsed& elapsed) {
    const double now = this->now();
    elapsed.date_start = now - elapsed.time();
    elapsed.previous_date += now - elapsed.date;
    elapsed.date = now;
    elapsed.last = false;
    read_at_ = elapsed.steps;
  }
  // Sets the date of the current step.
  void read(Elapsed& elapsed) {
    if (std::exchange(read_at_, elapsed.steps) != elapsed.steps) elapsed.date = now();
  }

  // From now on the run has to notice when a time is reached.
  void watch() { next_ = 0; }
  // The number of completed steps at which the clock is read next.
  std::int64_t next() const noexcept { return next_; }
  // The latest known time. Call this after the step's callbacks.
  double time_after(const Elapsed& elapsed) {
    after_ = elapsed.steps + 1 < next_ ? elapsed.date : now();
    return after_ - elapsed.date_start;
  }
  // Call this after the step that reaches next() has been counted. `until` is the next time to notice.
  void end_step(Elapsed& elapsed, double until) {
    elapsed.date = after_;
    read_at_ = elapsed.steps;
    constexpr double kMaxSteps = 128;
    double steps = 1;
    if (elapsed.steps > planned_at_ && elapsed.time() > planned_time_) {
      const double step_time = (elapsed.time() - planned_time_) / static_cast<double>(elapsed.steps - planned_at_);
      steps = std::clamp((until - elapsed.time()) / step_time / 2, 1.0, kMaxSteps);
    }
    next_ = elapsed.steps + static_cast<std::int64_t>(steps);
    planned_at_ = elapsed.steps;
    planned_time_ = elapsed.time();
  }

 private:
  Arbiter& arbiter_;
  std::int64_t read_at_ = -1;  // the number of completed steps at which the date was read last
  double after_ = 0;
  std::int64_t next_ = std::numeric_limits<std::int64_t>::max();
  std::int64_t planned_at_ = 0;  // steps at the last plan, and their time
  double planned_time_ = 0;
};

// The engine's parts are its agenda (what is due), its queue (device steps held back, to be launched together), its
// journal (logs on their way to the history and the observers) and its clock.
class RunEngine final : public Engine, StepSink {
 public:
  RunEngine(EngineOptions options, std::vector<AnyTask> tasks, Cursor& dataset, StateAccess& state, AnyLoopState& loop);

  StopReason advance(const Period& until) override;
  void extend(const Period& stop, History history, Outputs outputs) override;
  void finish() override;
  Elapsed completed() const override;
  void at_step_end(std::function<void()> f) override;
  void after_step(std::function<void()> f, bool first) override;
  void persist(Archive& archive) override;
  bool next() override;

 private:
  // A call of the program's. Error(invalid_argument) if a callback of the run makes it.
  class Call : NotCopied {
   public:
    Call(RunEngine& run, const char* name);
    ~Call() { run_.is_called_ = false; }

   private:
    RunEngine& run_;
    std::optional<ContextUse> context_;
  };
  using Hook = void (CallbackModel::*)(AnyLoopState&);
  // A function that a callback has deferred to the end of its step.
  struct Deferred {
    CallbackModel* callback;
    std::function<void()> run;
  };

  // Steps (run_engine.cpp).
  StopReason advance_to(const Period& until);
  void set_aim(const Period& until);
  void plan_idle_steps();
  bool is_at_stop() const { return loop_.stop_iteration || stop_.reached(elapsed_); }
  StopReason step(bool is_skipped);
  void begin_step();
  StopReason reason_to_end();
  void arbitrate_stop();
  // Whether a signal has come; the result will report it.
  bool is_interrupted() {
    if (has_pending_signals() || asks_arbiter_) check_signals();
    return results.interrupted != 0;
  }
  void check_signals();
  bool pass_on_logs();
  void end_step();

  // Callbacks, and the device (run_callbacks.cpp).
  template <class F>
  void run_as(CallbackModel* callback, const char* function, F&& f);
  void run_hook(CallbackModel* callback, const char* name, Hook hook);
  void run_hooks(const char* name, Hook hook);
  void announce_entries(const Logs& logs);
  void resume();
  void run_due(bool again);
  void run_task(Agenda::Task& task, bool all);
  void run_callback(CallbackModel* callback);
  void run_last();
  void run_deferred(std::vector<Deferred>& calls, const char* name);
  void defer_stop(bool stopped);
  void push(const std::shared_ptr<StepRecording>& recording, const StepCall& call) override;
  void flush() override;
  void launch();
  // Waits until all queued work is done and observed. Then the logs are all that the current step has logged so far.
  void bring_device() {
    if (device_state_ != nullptr || !queue_.is_empty() || journal_.has_pending() || journal_.has_rows()) synchronize();
  }
  void synchronize();
  void read_logs();
  void drain(bool all);

  // The end (run_end.cpp).
  void settle();
  void run_last_after_all();
  std::exception_ptr run_on_end();
  [[noreturn]] void fail(const std::exception_ptr& cause);
  [[noreturn]] void raise(const std::exception_ptr& cause, std::string place, const std::string& also = {});
  std::string where() const;

  Cursor& dataset_;
  StateAccess& state_;
  const State* const device_state_;
  AnyLoopState& loop_;
  EngineOptions options_;
  std::shared_ptr<const Partitioner> partitioner_;  // null if this process works alone
  // Makes the decisions: the program's own arbiter, that of several ranks (group_), or this process's.
  std::shared_ptr<GroupArbiter> group_;
  std::shared_ptr<Arbiter> arbiter_;
  const bool asks_arbiter_;  // in each step
  RunClock clock_;
  Elapsed& elapsed_;
  Current current_;
  Journal journal_;
  Agenda agenda_;
  std::vector<CallbackModel*> callbacks_;         // of all tasks, those that run on this rank
  std::vector<CallbackModel*> checking_entries_;  // those whose on_logged has not returned true yet
  std::vector<LogSchema> announced_;              // what they have seen
  std::vector<Deferred> at_step_end_, after_step_;
  DeviceQueue queue_{0};
  CallbackModel* queued_ = nullptr;  // the device step that was queued last

  Deadline stop_, aim_;
  Deadline idle_;             // before it nothing happens but counting
  std::int64_t first_batch_;  // the number of batches that the dataset has skipped when the run begins
  std::int64_t first_step_ = 0;
  bool between_steps_ = true;         // false: within a step, and elapsed_ is counted at its end
  std::optional<Elapsed> completed_;  // while elapsed_ is that of the latest step again, for run_last_after_all
  bool has_resumed_ = false, has_begun_ = false, is_finished_ = false;
  bool is_at_old_batch_ = false;         // the current batch belongs to the step at which the run stopped
  bool is_saved_ = false;                // after a signal that ends the run
  bool saves_ = false;                   // whether a callback saves when a signal asks for it
  std::atomic<bool> is_called_ = false;  // while a Call lives
  const bool heeds_signals_;
};

}  // namespace giro::detail
