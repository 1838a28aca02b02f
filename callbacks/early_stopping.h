#pragma once

#include <any>
#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <giro/callbacks/monitor.h>
#include <giro/kernels/nn/partitioner.h>
#include <giro/loop/callback.h>
#include <giro/loop/events.h>
#include <giro/loop/interrupt.h>
#include <giro/loop/log/logs.h>
#include <giro/loop/time/elapsed.h>
#include <giro/runtime/error.h>
#include <giro/runtime/handle.h>
#include <giro/runtime/snapshot.h>
#include <giro/runtime/state.h>

namespace giro {

struct EarlyStoppingOptions {
  // How long to wait for a better value: a number of evaluations in a row, that is, of calls of this callback (0 acts
  // as 1), or a period since the best value: at({.samples = 60'000}), or at(5'000) for steps. In ciclo an integer means
  // steps.
  std::variant<std::int64_t, Period> patience = std::int64_t{0};
  double min_delta = 0;                 // a value is better only if it is better by more than this
  std::string mode = "auto";            // "min", "max", or "auto": as the entry itself says (Var::direction)
  std::optional<double> baseline = {};  // a better value ends the wait only if it also beats this
  bool restore_best = false;            // end with the state that had the best value
};

// A callback that stops the loop when an entry of the logs, a name or "collection.name", stops improving. It reads the
// latest value logged since the loop began, by callbacks before it or in earlier steps. NaN is never the best. It sees
// the state, so it is a barrier. With several ranks rank 0's value decides for all.
//
// The next loop that gets it or a copy continues where this one ended: copies share the best value, the wait so far,
// without the time between loops, and with restore_best the best state. After a stop the next loop starts a new wait
// for a value better than the best. For an unrelated run create a new one. Do not use it in two loops at the same time.
//
// With restore_best a State's saved collections are copied on its device at each best value, and written back when this
// stops the loop or the loop ends otherwise, except by an error. Any other state must be copyable and is copied whole.
// Step counters in the state go back, too; the loop's counters do not.
//
// Errors: invalid_argument for an unknown mode, naming the nearest, a negative patience or min_delta, or an empty
// period; in the first step that logs the entry, if the mode is "auto" and the entry does not say which way it is
// better. When called: not_found, naming the nearest entry, if the entry was never logged, unless the loop continues
// another one and may still log it; unsupported if the state cannot be copied; invalid_argument if the loop's state has
// another type or structure than the best state to restore. It ignores a step that a signal has interrupted.
class EarlyStopping : public GenericCallback {
 public:
  static constexpr LoopEvent kEvent = LoopEvent::on_epoch_end;  // in the list `callbacks` of a train loop

  EarlyStopping(const std::string& monitor, const EarlyStoppingOptions& options);

  // For loops written by hand: whether to stop. It restores nothing.
  bool operator()(const Elapsed& elapsed, const Logs& logs, const Partitioner* ranks = nullptr) {
    return evaluate(elapsed, logs, ranks) == Verdict::stop;
  }
  bool on_logged(const LogSchema& entries) { return memory_->monitor.learn_mode(entries); }

  // With restore_best also the best state, if it is a State.
  void persist(Archive& archive);

  template <class S, class B>
  void on_start(LoopState<S, B>& loop) {
    begin(loop.elapsed);
    if constexpr (std::is_base_of_v<State, S>) adopt_restored(loop.state);
  }
  template <class S, class B>
  void operator()(LoopState<S, B>& loop) {
    if (detail::may_be_interrupted()) return;  // the evaluation may have been cut short
    const Verdict verdict = evaluate(loop.elapsed, loop.accumulated_logs(), loop.partitioner());
    if (verdict == Verdict::best && restore_best_) keep(loop.state);
    if (verdict == Verdict::stop) {
      restore_best_state(loop.state);
      loop.stop_iteration = true;
    }
  }
  template <class S, class B>
  void on_end(LoopState<S, B>& loop) {
    memory_->ended = loop.elapsed;
    if constexpr (std::is_base_of_v<State, S>) adopt_restored(loop.state);  // if a resumed run has already ended
    if (!loop.failed) restore_best_state(loop.state);
  }

  // Shared by all copies: the best value, NaN while there is none, and when it was seen.
  double best() const noexcept { return memory_->monitor.best(); }
  const std::optional<Elapsed>& best_elapsed() const noexcept { return memory_->best_elapsed; }
  // Whether this or a copy stopped the latest loop, or told a loop written by hand to stop.
  bool stopped() const noexcept { return memory_->stopped; }

 private:
  enum class Verdict { best, wait, stop };
  // A copy of a State's saved collections, on its device.
  using Saved = std::shared_ptr<Snapshot>;

  struct Memory {
    Monitor monitor;
    std::int64_t waited = 0;                  // evaluations since a value last beat the best and the baseline
    std::optional<Elapsed> waits_since = {};  // when that was, or else the first evaluation
    std::optional<Elapsed> best_elapsed = {};
    std::optional<Elapsed> ended = {};  // the end of the latest loop
    bool stopped = false;
    std::any best_state = {};
    bool is_restored = false;     // whether the latest loop has restored it already
    std::vector<Leaf> read = {};  // the best state as read from an archive, until a loop's state adopts it
    std::shared_ptr<const void> read_owner = {};
  };

  void begin(const Elapsed& elapsed);
  Verdict evaluate(const Elapsed& elapsed, const Logs& logs, const Partitioner* ranks);
  void adopt_restored(const State& state);
  static void copy_saved(const State& state, Saved& saved);
  [[noreturn]] static void reject_other_state();

  template <class S>
  void keep(const S& state) {
    std::any& best = memory_->best_state;
    if constexpr (std::is_base_of_v<State, S>) {
      state.expect_one_tree(&state, sizeof(S));
      if (std::any_cast<Saved>(&best) == nullptr) best = Saved();
      copy_saved(state, *std::any_cast<Saved>(&best));
    } else if constexpr (std::copyable<S>) {
      best = state;
    } else {
      throw Error(ErrorCode::unsupported, "early_stopping: restore_best needs a state that can be copied");
    }
  }
  template <class S>
  void restore_best_state(S& state) {
    if (!memory_->best_state.has_value() || std::exchange(memory_->is_restored, true)) return;
    using Kept = std::conditional_t<std::is_base_of_v<State, S>, Saved, S>;
    if constexpr (std::copyable<Kept>) {
      const Kept* best = std::any_cast<Kept>(&memory_->best_state);
      if (best == nullptr) reject_other_state();
      if constexpr (std::is_base_of_v<State, S>) {
        if (!(*best)->fits(state)) reject_other_state();
        (*best)->write_back(state);
      } else {
        state = *best;
      }
    }
  }

  std::variant<std::int64_t, Period> patience_;
  std::optional<double> baseline_;
  bool restore_best_;
  detail::Handle<Memory> memory_;
};

inline EarlyStopping early_stopping(const std::string& monitor, const EarlyStoppingOptions& options = {}) {
  return {monitor, options};
}

}  // namespace giro
