#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <giro/loop/batch.h>
#include <giro/loop/logs.h>
#include <giro/loop/signature.h>
#include <giro/runtime/state.h>

namespace giro {

namespace detail {

// What a step does whatever its state's type is: brings the batch to the device, records or runs the body, and sends
// the scalars that were logged on their way to the host.
class StepEngine {
 public:
  using Body = std::function<Logs(const Batch&)>;

  enum class Mode { recorded, eager };
  explicit StepEngine(Mode mode);
  ~StepEngine();

  Logs operator()(const State& state, const Batch& batch, const Body& body);
  std::size_t num_recordings() const noexcept { return recordings_.size(); }

 private:
  struct Recording;
  Logs run_eagerly(const State& state, const Batch& batch, const Body& body);
  Recording& recording_for(const State& state, const Batch& batch, const Body& body);

  Mode mode_;
  std::vector<std::unique_ptr<Recording>> recordings_;
  std::shared_ptr<LogRing> eager_ring_;
};

}  // namespace detail

// A step over state and batch that runs on the state's device without waiting for it: what jit and eager make of the
// user's function. Its logs' scalars arrive on the host when the device gets there. A handle; copies share recordings.
template <class S>
class Step {
 public:
  using Function = std::function<Logs(S& state, const Batch& batch)>;

  Step(Function function, detail::StepEngine::Mode mode)
      : function_(std::move(function)), engine_(std::make_shared<detail::StepEngine>(mode)) {}

  // Errors: those of the ops, when the step is first recorded for a state and a batch's shapes; device_mismatch for a
  // batch that lies on another device than the state.
  Logs operator()(S& state, const Batch& batch) const {
    return (*engine_)(state, batch, [&](const Batch& on_device) { return function_(state, on_device); });
  }

  // How often the function was recorded: once for each state and each set of shapes.
  std::size_t num_recordings() const noexcept { return engine_->num_recordings(); }

 private:
  Function function_;
  std::shared_ptr<detail::StepEngine> engine_;
};

namespace detail {

template <class F>
auto make_step(F function, StepEngine::Mode mode) {
  using Traits = Signature<F>;
  static_assert(Traits::known, "giro: a step is a function of (State&, const Batch&) with one signature, without auto");
  using First = std::tuple_element_t<0, typename Traits::Arguments>;
  using S = std::remove_cvref_t<First>;
  static_assert(std::is_base_of_v<State, S> && std::is_reference_v<First>,
                "giro: the first parameter of a step is a reference to State or to a class derived from it");
  return Step<S>(std::move(function), mode);
}

}  // namespace detail

// Records `function(S& state, const Batch& batch) -> Logs` once for each state and set of batch shapes, and replays it
// from then on: a CUDA graph, or a list of calls on the CPU. The function runs on the host while it is recorded only:
// whatever it does there besides queueing work is not repeated, and numbers it logs from the host stay what they were.
template <class F>
auto jit(F function) {
  return detail::make_step(std::move(function), detail::StepEngine::Mode::recorded);
}

// The same, run anew each time: slower, with the same results to the bit.
template <class F>
auto eager(F function) {
  return detail::make_step(std::move(function), detail::StepEngine::Mode::eager);
}

}  // namespace giro
