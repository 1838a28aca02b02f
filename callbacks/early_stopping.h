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
  // 1), or a period since the best one: at({.samples = 60'000}), or at(5'000) for steps, which an integer is in ciclo.
  std::variant<std::int64_t, Period> patience = std::int64_t{0};
  double min_delta = 0;                 // only what is better by more than that is better
  std::string mode = "min";             // or "max"
  std::optional<double> baseline = {};  // patience runs until this is beaten, too
  bool restore_best = false;            // end with the state that had the best value
};

// A callback that stops the loop when an entry of the logs, a name or "collection.name", no longer gets better. It
// looks at the latest value that was logged since the loop began, by callbacks in front of it or in earlier steps;
// NaN is never the best. As it sees the state, it is a barrier.
//
// It goes on in the next loop that it or a copy of it is given to: the copies share the best value, how long it has
// been waited for a better one, not counting what passes between the loops, and with restore_best the best state. After
// a stop, the next loop waits anew to beat the best. For a run that has nothing to do with the one before, make
// another. Not for two loops at the same time.
//
// With restore_best the saved collections of a State are copied on its device at every best value, and written back
// at the stop, or when the loop ends otherwise, but not by an error; of any other state that can be copied, a copy
// is. What counts steps in the state goes back as well, what the loop counts does not.
//
// Errors: invalid_argument for an unknown mode, naming the nearest, a negative patience or min_delta, an empty
// period. When called: not_found, naming the nearest entry, if the entry was never logged, unless the loop goes on
// from another and the entry is still to come; unsupported if the state cannot be copied; invalid_argument if the best
// state is to be put back in a loop over another type or structure. It judges nothing in a step
// that a signal has interrupted.
class EarlyStopping : public GenericCallback {
 public:
  static constexpr LoopEvent kEvent = LoopEvent::on_epoch_end;  // in the list `callbacks` of a train loop

  EarlyStopping(const std::string& monitor, const EarlyStoppingOptions& options);

  // For loops written by hand: whether to stop. It restores nothing.
  bool operator()(const Elapsed& elapsed, const Logs& logs) { return look(elapsed, logs) == Verdict::stop; }

  // With restore_best, the best state as well where it is a State.
  void persist(Archive& archive);

  template <class S, class B>
  void on_start(LoopState<S, B>& loop) {
    begin(loop.elapsed);
    if constexpr (std::is_base_of_v<State, S>) take_read(loop.state);
  }
  template <class S, class B>
  void operator()(LoopState<S, B>& loop) {
    if (detail::may_be_cut_short()) return;  // the evaluation may have been cut short
    const Verdict verdict = look(loop.elapsed, loop.accumulated_logs());
    if (verdict == Verdict::best && restore_best_) keep(loop.state);
    if (verdict == Verdict::stop) {
      put_back(loop.state);
      loop.stop_iteration = true;
    }
  }
  template <class S, class B>
  void on_end(LoopState<S, B>& loop) {
    memory_->ended = loop.elapsed;
    if constexpr (std::is_base_of_v<State, S>) take_read(loop.state);  // of a run that is over as it is resumed
    if (!loop.failed) put_back(loop.state);
  }

  // What this and its copies have seen. The best value, NaN while there is none, and the step in which it was seen.
  double best() const noexcept { return memory_->monitor.best(); }
  const std::optional<Elapsed>& best_elapsed() const noexcept { return memory_->best_elapsed; }
  // Whether one of them has stopped the latest loop, or has told one written by hand to stop.
  bool stopped() const noexcept { return memory_->stopped; }

 private:
  enum class Verdict { best, wait, stop };
  // A copy of a State's saved collections, on its device.
  using Saved = std::shared_ptr<Snapshot>;

  struct Memory {
    Monitor monitor;
    std::int64_t waited = 0;                  // evaluations since one was better than all before, and than the baseline
    std::optional<Elapsed> waits_since = {};  // that one, or else the first
    std::optional<Elapsed> best_elapsed = {};
    std::optional<Elapsed> ended = {};  // where the latest loop has
    bool stopped = false;
    std::any best_state = {};
    bool is_put_back = false;     // by the stop of the latest loop
    std::vector<Leaf> read = {};  // the best state, where it was read from an archive and no state was seen since
    std::shared_ptr<const void> read_owner = {};
  };

  void begin(const Elapsed& elapsed);
  Verdict look(const Elapsed& elapsed, const Logs& logs);
  void take_read(const State& state);
  static void copy_saved(const State& state, Saved& saved);
  [[noreturn]] static void refuse_other_state();

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
  void put_back(S& state) {
    if (!memory_->best_state.has_value() || std::exchange(memory_->is_put_back, true)) return;
    using Kept = std::conditional_t<std::is_base_of_v<State, S>, Saved, S>;
    if constexpr (std::copyable<Kept>) {
      const Kept* best = std::any_cast<Kept>(&memory_->best_state);
      if (best == nullptr) refuse_other_state();
      if constexpr (std::is_base_of_v<State, S>) {
        if (!(*best)->fits(state)) refuse_other_state();
        (*best)->write_back(state);
      } else {
        state = *best;
      }
    }
  }

  std::variant<std::int64_t, Period> patience_;
  std::optional<double> baseline_;
  bool restore_best_;
  std::shared_ptr<Memory> memory_;
};

inline EarlyStopping early_stopping(const std::string& monitor, const EarlyStoppingOptions& options = {}) {
  return {monitor, options};
}

}  // namespace giro
