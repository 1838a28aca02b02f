#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <giro/loop/engine.h>
#include <giro/loop/interrupt.h>
#include <giro/loop/step/device_queue.h>

#include "loop/run/agenda.h"
#include "loop/run/deadline.h"
#include "loop/run/group_arbiter.h"
#include "loop/run/journal.h"
#include "loop/run/run_clock.h"

namespace giro::detail {

// The engine's parts are its agenda (what is due), its queue (device steps held back, to be launched together), its
// journal (logs on their way to the history and the observers) and its clock.
class RunEngine final : public Engine, StepSink {
 public:
  RunEngine(EngineOptions options, std::vector<EngineTask> tasks, Cursor& dataset, StateAccess& state,
            AnyLoopState& loop);

  StopReason advance(const Period& until) override;
  void extend(const Period& stop, History history, Outputs outputs) override;
  void finish() override;
  const Elapsed& elapsed() const override { return elapsed_; }
  History& history() override { return journal_.history(); }
  Outputs& outputs() override { return journal_.outputs(); }
  std::any& metadata() override { return options_.metadata; }
  int interrupted() const override { return signal_; }
  StopReason ended() const override { return ended_; }
  Elapsed completed() const override;
  void at_step_end(std::function<void()> f) override;
  void after_step(std::function<void()> f, bool first) override;
  void persist(Archive& archive) override;
  bool begin() override;
  bool next() override;

 private:
  struct Task {
    std::vector<AnyCallback> callbacks;
    // The step in which they ran last, and how many of them ran: a stop may have skipped the rest.
    std::int64_t ran_at = -1;
    std::size_t ran = 0;
  };
  // A function that a callback has deferred to the end of its step.
  struct Deferred {
    const AnyCallback* callback;
    std::function<void()> run;
  };

  // Steps (run_engine.cpp).
  StopReason advance_to(const Period& until);
  void set_aim(const Period& until);
  bool is_at_stop() const { return loop_.stop_iteration || stop_.reached(elapsed_); }
  bool skip_idle_steps();
  StopReason step(bool is_skipped);
  void begin_step();
  StopReason reason_to_end();
  bool pass_on_logs();
  void end_step();
  void plan_idle_steps();
  void arbitrate_stop();
  // Whether a signal has come; the result will report it.
  bool is_interrupted() {
    if (has_pending_signals() || asks_arbiter_) check_signals();
    return signal_ != 0;
  }
  void check_signals();
  void restore(const Elapsed& elapsed, std::int64_t batches, Archive& archive);

  // Callbacks (run_callbacks.cpp).
  template <class F>
  void for_each_callback(F&& f);
  template <class F>
  void run_hook(AnyCallback& callback, const char* name, F&& hook);
  bool saves() const;
  void resume();
  bool start();
  void run_on_save();
  std::exception_ptr run_on_end();
  void run_due();
  void run_skipped();
  void run_last();
  void run_task(Task& task);
  void run_callback(AnyCallback& callback);
  void run_at_once(AnyCallback& callback);
  void run_deferred(std::vector<Deferred>& calls, const char* name);
  void before_schedule(const Agenda::Traits& traits);
  void defer_stop(bool stopped);
  bool runs_here(const AnyCallback& callback) const { return is_primary_ || !callback.is_primary_only(); }
  std::string listing() const;

  // The device (run_device.cpp).
  void push(const std::shared_ptr<StepRecording>& recording, const StepCall& call) override;
  void flush() override;
  void launch();
  // Waits until all queued work is done and observed. Then the logs are all that the current step has logged so far.
  void bring_device() {
    if (device_state_ != nullptr || !queue_.is_empty() || journal_.has_pending() || journal_.has_rows()) {
      synchronize(device_state_ != nullptr ? &device_state_->stream() : nullptr);
    }
  }
  void synchronize(const Stream* stream);
  void make_room(const Stream& stream);
  void drain(bool all);
  void settle();

  // The end (run_end.cpp).
  void end(StopReason why);
  void run_last_after_all();
  void leave();
  void drop_step();
  [[noreturn]] void fail(const std::exception_ptr& cause);
  [[noreturn]] void raise(const std::exception_ptr& cause, std::string place, const std::string& also = {});
  std::string where() const;
  // The callback that is running or has failed. While held-back calls are launched, the device step queued last.
  const AnyCallback* running() const { return is_launching_ ? queued_ : running_; }

  Cursor& dataset_;
  StateAccess& state_;
  const State* const device_state_;
  AnyLoopState& loop_;
  EngineOptions options_;
  std::shared_ptr<const Partitioner> partitioner_;
  const bool is_primary_;
  // Makes the decisions: the program's own arbiter, that of several ranks (group_), or this process's.
  const bool has_own_arbiter_;
  std::shared_ptr<GroupArbiter> group_;
  const bool asks_arbiter_;  // in each step
  std::shared_ptr<Arbiter> arbiter_;
  RunClock clock_;
  Elapsed elapsed_;
  Journal journal_;
  Agenda agenda_;
  std::vector<Task> tasks_;
  std::vector<Deferred> at_step_end_, after_step_;
  const AnyCallback* running_ = nullptr;
  const AnyCallback* queued_ = nullptr;  // the device step that was queued last

  DeviceQueue queue_{0};
  std::optional<Stream> stream_;  // of the latest calls
  bool is_launching_ = false;     // a launch is in progress or has failed

  Deadline stop_, aim_;
  IdleSteps idle_;
  std::int64_t first_batch_;  // the number of batches the dataset has skipped when the run begins
  Activity activity_ = Activity::loop;
  bool between_steps_ = true;         // false: within a step, and elapsed_ is counted at its end
  std::optional<Elapsed> completed_;  // while elapsed_ is that of the latest step again, for run_last_after_all
  bool has_begun_ = false, has_ended_ = false, is_finished_ = false;
  bool after_stop_ = false;  // the current batch belongs to the step at which the run stopped
  bool is_saved_ = false;    // after a signal that ends the run
  const bool heeds_signals_;
  int signal_ = 0;  // the signal that has interrupted the run, or 0
  StopReason ended_ = StopReason::reached;
};

}  // namespace giro::detail
