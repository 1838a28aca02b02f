#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <giro/runtime/not_copied.h>

namespace giro {

class Partitioner;
class Stream;
class Tensor;
namespace nn {
class PartCalls;
}

namespace detail {

// What the work that a thread queues needs to know of the call of a step that it belongs to. As it is here it is
// outside of steps.
struct StepContext {
  // The step; null outside of steps. Work on another stream than its own does not belong to it.
  const std::string* name = nullptr;
  const Tensor* call = nullptr;  // i64 scalar on the device: number of earlier calls
  const Stream* stream = nullptr;
  bool is_op_by_op = false;  // the host waits after each op that is queued outside of recordings (op_by_op.h)
  // This rank's part of the batch: its weight relative to an even part, its first row in the whole batch, its rows.
  double weight = 1;
  std::int64_t first_row = 0, rows = 0;      // 0 if unknown
  std::shared_ptr<const Partitioner> ranks;  // or null
  // A loss is computed for one of so many parts of these rows, in these calls or null.
  int parts = 1;
  nn::PartCalls* calls = nullptr;
  // Whether results that are computed from Vars can be differentiated. During most backward passes they cannot.
  bool keeps_gradients = true;
  std::int64_t* draws = nullptr;  // made in this call so far

  // Numbers `count` draws of the call, so that they differ; returns the first. Outside of steps it is always 0.
  std::int64_t take_draws(std::int64_t count) const noexcept {
    return draws == nullptr ? 0 : std::exchange(*draws, *draws + count);
  }
};

// The context of this thread while an instance lives: a copy of the one before, in which its owner changes what
// differs.
class StepScope : public StepContext, NotCopied {
 public:
  StepScope() noexcept : StepContext(current()), outer_(std::exchange(current_, this)) {}
  // For a loss of one of `parts` parts of the rank's rows.
  StepScope(std::shared_ptr<const Partitioner> of_ranks, int of_parts) noexcept : StepScope() {
    ranks = std::move(of_ranks);
    parts = of_parts;
  }
  ~StepScope() { current_ = outer_; }

  static const StepContext& current() noexcept {
    static const auto* const outside = new StepContext;  // static objects may still compute at the exit
    return current_ != nullptr ? *current_ : *outside;
  }

 private:
  static inline constinit thread_local const StepContext* current_ = nullptr;
  const StepContext* outer_;
};

}  // namespace detail
}  // namespace giro
