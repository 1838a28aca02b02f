#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include <giro/callbacks/periodic_action.h>
#include <giro/loop/log/logs.h>
#include <giro/loop/time/elapsed.h>

namespace giro {

struct PeriodicCallbackOptions {
  // As in ActionInterval.
  std::optional<std::int64_t> every_steps = {};
  std::optional<double> every_secs = {};
  std::vector<std::int64_t> on_steps = {};
  // On a thread of its own, one call after the other. What a call throws comes up once, at the next update, or where
  // the loop ends.
  bool execute_async = false;
};

// A function that is called at an interval, as CLU's PeriodicCallback: by hand (update), or as an observer in a loop,
// where it is a task of every(1). A function that needs no thread of its own is a callback by itself, with a schedule:
// {every(2), f}. Copies share what they remember, and the thread.
class PeriodicCallback {
 public:
  // Errors: invalid_argument as of PeriodicAction.
  using Function = std::function<void(std::int64_t step, double t, const Logs& logs)>;
  // Or a function of (step, t), or of nothing.
  template <class F>
  PeriodicCallback(F f, const PeriodicCallbackOptions& options) : PeriodicCallback(adapt(std::move(f)), options, 0) {}

  // After `step` steps, at time `t` in seconds. Whether it has called the function, or has queued the call. Errors:
  // those of PeriodicAction, and what the function throws.
  bool update(std::int64_t step, double t = Elapsed::now(), const Logs& logs = {});
  // Waits for the calls that are queued.
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
                    "giro: the function of a PeriodicCallback takes (step, t, logs), (step, t) or nothing");
      return [f = std::move(f)](std::int64_t, double, const Logs&) mutable { f(); };
    }
  }

  std::shared_ptr<Memory> memory_;
};
template <class F>
PeriodicCallback periodic_callback(F f, const PeriodicCallbackOptions& options) {
  return {std::move(f), options};
}

}  // namespace giro
