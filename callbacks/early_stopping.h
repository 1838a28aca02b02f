#pragma once

#include <any>
#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>

#include <giro/callbacks/monitor.h>
#include <giro/loop/callback.h>
#include <giro/loop/events.h>
#include <giro/loop/interrupt.h>
#include <giro/loop/log/logs.h>
#include <giro/loop/time/elapsed.h>
#include <giro/runtime/error.h>
#include <giro/runtime/snapshot.h>
#include <giro/runtime/state.h>

namespace giro {

struct EarlyStoppingOptions {
  // How long to wait for a better value: so many evaluations in a row, which are this callback's own calls (0 is as
  // 1), or a period since the best one: at({.samples = 60'000}).
  std::variant<std::int64_t, Period> patience = std::int64_t{0};
  double min_delta = 0;            // only what is better by more than that is better
  std::string mode = "min";        // or "max"
  std::optional<double> baseline;  // patience runs until this is beaten, too
  bool restore_best = false;       // end with the state that had the best value
};

// A callback that stops the loop when an entry of the logs, a name or "collection.name", no longer gets better. It
// looks at the latest value that was logged since the loop began, by callbacks in front of it or in earlier steps;
// NaN is never the best. As it sees the state, it is a barrier.
//
// With restore_best the saved collections of a State are copied on its device at every best value, and written back
// at the stop, or when the loop ends otherwise, but not by an error; of any other state that can be copied, a copy
// is. What counts steps in the state goes back as well, what the loop counts does not.
//
// Errors: invalid_argument for an unknown mode, naming the nearest, a negative patience or min_delta, an empty
// period. When called: not_found, naming the nearest entry, if the entry was never logged, unless the loop goes on
// from another and the entry is still to come; unsupported if the state cannot be copied. It judges nothing in a step
// that a signal has interrupted.
class EarlyStopping : public GenericCallback {
 public:
  static constexpr LoopEvent kEvent = LoopEvent::on_epoch_end;  // in the list `callbacks` of a train loop

  EarlyStopping(const std::string& monitor, const EarlyStoppingOptions& options);

  // For loops written by hand: whether to stop. It restores nothing.
  bool operator()(const Elapsed& elapsed, const Logs& logs) { return look(elapsed, logs) == Verdict::stop; }

  template <class S, class B>
  void on_start(LoopState<S, B>& loop) {
    monitor_.begin(loop.elapsed);
  }
  template <class S, class B>
  void operator()(LoopState<S, B>& loop) {
    if (detail::interrupt_signal() != 0) return;  // the evaluation may have been cut short
    const Verdict verdict = look(loop.elapsed, loop.accumulated_logs());
    if (verdict == Verdict::best && restore_best_) keep(loop.state);
    if (verdict == Verdict::stop) {
      put_back(loop.state);
      loop.stop_iteration = true;
    }
  }
  template <class S, class B>
  void on_end(LoopState<S, B>& loop) {
    if (loop.failed) best_state_.reset();
    put_back(loop.state);
  }

 private:
  enum class Verdict { best, wait, stop };
  // A copy of a State's saved collections, on its device.
  using Saved = std::shared_ptr<Snapshot>;

  Verdict look(const Elapsed& elapsed, const Logs& logs);
  static void copy_saved(const State& state, Saved& saved);

  template <class S>
  void keep(const S& state) {
    if constexpr (std::is_base_of_v<State, S>) {
      if (!best_state_.has_value()) best_state_ = Saved();
      copy_saved(state, std::any_cast<Saved&>(best_state_));
    } else if constexpr (std::copyable<S>) {
      best_state_ = state;
    } else {
      throw Error(ErrorCode::unsupported, "early_stopping: restore_best needs a state that can be copied");
    }
  }
  template <class S>
  void put_back(S& state) {
    if (!best_state_.has_value()) return;
    if constexpr (std::is_base_of_v<State, S>) {
      std::any_cast<const Saved&>(best_state_)->write_back(state);
    } else if constexpr (std::copyable<S>) {
      state = std::any_cast<const S&>(best_state_);
    }
    best_state_.reset();
  }

  Monitor monitor_;
  std::variant<std::int64_t, Period> patience_;
  std::optional<double> baseline_;
  bool restore_best_;
  std::int64_t waited_ = 0;             // evaluations since one was better than all before, and than the baseline
  std::optional<Elapsed> waits_since_;  // that one, or else the first
  std::any best_state_;
};

inline EarlyStopping early_stopping(const std::string& monitor, const EarlyStoppingOptions& options = {}) {
  return {monitor, options};
}

}  // namespace giro
