#pragma once

#include <cstdint>
#include <functional>
#include <type_traits>
#include <utility>

#include <giro/callbacks/periodic_action.h>
#include <giro/loop/log/logs.h>
#include <giro/loop/time/elapsed.h>
#include <giro/runtime/handle.h>

namespace giro {

struct PeriodicCallbackOptions {
  // As in ActionInterval.
  std::optional<std::int64_t> every_steps = {};
  std::optional<double> every_secs = {};
  std::vector<std::int64_t> on_steps = {};
  // Makes the calls on a separate thread, one after the other. An error in one is thrown once, by the next update or
  // when the loop ends.
  bool execute_async = false;
};

// A function that is called at an interval, like CLU's PeriodicCallback: by hand (update), or as an observer in a loop,
// as a task of every(1). In a task with gaps it is called in the first step of the task that is due or comes after one
// that was. Without execute_async a plain callback with a schedule does the same: {every(2), f}. Copies share their
// memory and the thread.
class PeriodicCallback {
 public:
  // Errors: invalid_argument, as PeriodicAction.
  using Function = std::function<void(std::int64_t step, double t, const Logs& logs)>;
  // `f` may also take (step, t), or nothing.
  template <class F>
  PeriodicCallback(F f, const PeriodicCallbackOptions& options) : PeriodicCallback(adapt(std::move(f)), options, 0) {}

  // Call it after `step` steps, at time `t` in seconds. Returns whether it has called the function or queued the call.
  // Errors: those of PeriodicAction and of the function.
  bool update(std::int64_t step, double t = Elapsed::now(), const Logs& logs = {});
  // Waits for the queued calls.
  void join();

  void on_start(const Elapsed& elapsed);
  void operator()(const Elapsed& elapsed, const Logs& logs);
  void on_end();
  void persist(Archive& archive);

 private:
  struct Memory;

  PeriodicCallback(Function f, const PeriodicCallbackOptions& options, int);

  template <class F>
  static Function adapt(F f) {
    if constexpr (std::is_invocable_v<F&, std::int64_t, double, const Logs&>) {
      return f;
    } else if constexpr (std::is_invocable_v<F&, std::int64_t, double>) {
      return [f = std::move(f)](std::int64_t step, double t, const Logs&) mutable { f(step, t); };
    } else {
      static_assert(std::is_invocable_v<F&>,
                    "giro: a PeriodicCallback's function must take (step, t, logs), (step, t) or nothing");
      return [f = std::move(f)](std::int64_t, double, const Logs&) mutable { f(); };
    }
  }

  detail::Handle<Memory> memory_;
};
template <class F>
PeriodicCallback periodic_callback(F f, const PeriodicCallbackOptions& options) {
  return {std::move(f), options};
}

}  // namespace giro
