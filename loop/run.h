#pragma once

#include <any>
#include <exception>
#include <iterator>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <giro/loop/cursor.h>
#include <giro/loop/data/range.h>
#include <giro/loop/engine.h>
#include <giro/loop/loop_error.h>
#include <giro/loop/loop_result.h>
#include <giro/loop/loop_state.h>
#include <giro/loop/task.h>
#include <giro/runtime/files/archive.h>
#include <giro/runtime/state.h>

namespace giro {

namespace detail {

template <class S, class B>
EngineOptions engine_options(LoopOptions<S, B>&& options) {
  const auto erased = [](std::vector<Callback<S, B>>& callbacks) {
    return std::vector<AnyCallback>(std::make_move_iterator(callbacks.begin()),
                                    std::make_move_iterator(callbacks.end()));
  };
  return {.results = {.history = std::move(options.history),
                      .elapsed = options.elapsed,
                      .outputs = std::move(options.outputs),
                      .metadata = std::move(options.metadata)},
          .stop = options.stop,
          .on_start = erased(options.on_start),
          .on_end = erased(options.on_end),
          .tokens_per_sample = options.tokens_per_sample,
          .catch_signals = options.catch_signals,
          .steps_per_execution = options.steps_per_execution,
          .arbiter = std::move(options.arbiter)};
}

}  // namespace detail

// A loop that can be paused: it is advanced to a point, inspected, and advanced again, any number of times. `loop` is a
// run that is advanced once. However a run is split into advances, it makes the same calls and produces the same state,
// history and outputs, bit for bit.
//
//   giro::Run run(std::move(state), train, {{giro::every(1), train_step}});
//   while (run.advance(giro::at(run.elapsed().steps + 1'000)) == giro::StopReason::reached) evaluate(run.state());
//   auto [trained, history, elapsed] = run.finish();
//
// The dataset must outlive the run. A position in it is a number of batches. A resumed run (LoopState::persist) begins
// with dataset.begin_at(batch), an iterator at batch number `batch`, if the dataset has that member; otherwise it skips
// the earlier batches one by one. If begin() is not at batch 0, first_batch() must return its number. A member
// persist(Archive&) saves, or checks, what identifies the dataset.
template <class S, std::ranges::input_range R>
class Run : detail::StateAccess, detail::NotCopied {
 public:
  using B = std::ranges::range_value_t<R>;

  Run(S state, R& dataset, const std::vector<Task<S, B>>& tasks, LoopOptions<S, B> options = {})
      : state_(std::move(state)),
        dataset_(dataset, std::move(options.batch_size_fn)),
        engine_(detail::Engine::create(detail::engine_options(std::move(options)), {tasks.begin(), tasks.end()},
                                       dataset_, *this, loop_)),
        loop_(state_, results().elapsed, results().history, results().metadata, engine_.get()) {}

  // Runs until `until` is reached or the run ends; `until` counts like LoopOptions::stop. Every device step has then
  // run, and all logs are in the history. Errors: LoopError as in loop, which ends the run; Error(invalid_argument) if
  // the run has already ended, if a callback of the run calls it, and while another thread uses the state's context.
  StopReason advance(const Period& until = {}) { return engine_->advance(until); }

  // Sets another stop for a run that has stopped at LoopOptions::stop, or was resumed there, with a new history and new
  // outputs. The batch after the stop is made when the run is advanced, so a dataset that fails there leaves the run
  // intact until then. Error(invalid_argument) if the run has not stopped there.
  void extend(const Period& stop, History history = {}, Outputs outputs = {}) {
    engine_->extend(stop, std::move(history), std::move(outputs));
  }

  // The results of the steps so far. The state's leaves may be written, as between two loops.
  S& state() noexcept { return state_; }
  const Elapsed& elapsed() const noexcept { return results().elapsed; }
  const History& history() const noexcept { return results().history; }
  const Outputs& outputs() const noexcept { return results().outputs; }
  std::any& metadata() noexcept { return results().metadata; }
  int interrupted() const noexcept { return results().interrupted; }  // the signal that has ended it, or 0

  // Runs every on_end and returns the results. If the run is paused and has not ended, this first runs the callbacks of
  // last() that have not run in the latest step. They have no batch, and their logs are a separate record. Errors:
  // LoopError; invalid_argument if it was finished before.
  LoopResult<S> finish() {
    engine_->finish();
    detail::RunResults& all = results();
    return {std::move(state_),       std::move(all.history), all.elapsed, std::move(all.outputs),
            std::move(all.metadata), all.interrupted,        all.ended};
  }

 private:
  const State* device_state() const override {
    if constexpr (std::is_base_of_v<State, S>)
      return &state_;
    else
      return nullptr;
  }
  std::shared_ptr<const Partitioner> partitioner() const override { return partitioner_of(state_); }
  void persist(Archive& archive) override {
    if constexpr (detail::is_persistent<S>) archive("state", state_);
  }
  [[noreturn]] void raise(ErrorCode code, const std::string& message, const std::exception_ptr& cause) override {
    detail::RunResults& all = results();
    throw LoopError(code, message, cause, std::move(state_), all.elapsed, std::move(all.history),
                    std::move(all.outputs), std::move(all.metadata));
  }
  detail::RunResults& results() const noexcept { return engine_->results; }

  S state_;
  detail::RangeCursor<R, B> dataset_;
  std::unique_ptr<detail::Engine> engine_;
  LoopState<S, B> loop_;
};

template <class S, class R, class... Rest>
Run(S, R&, Rest&&...) -> Run<S, R>;

}  // namespace giro
