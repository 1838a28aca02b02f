#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <giro/runtime/state.h>
#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

namespace giro {

// The gradients of one backward pass, on their way to all ranks. Dropped before finish(), it leaves this rank's as they
// are.
class GradientReduction {
 public:
  virtual ~GradientReduction() = default;
  // The gradient that is the leaf of this position in its collection has been queued whole.
  virtual void ready(std::size_t leaf) = 0;
  // All have, those included that were not named: what is queued from here on finds the mean over the ranks.
  virtual void finish() = 0;
};

// How a state and the batches of its steps lie on the ranks that work on them together, and what those tell each other.
// A state that has one gives the same step on any number of ranks: distributed/partitioner.h makes them. Every rank
// makes the same calls in the same order. Errors of all calls: communication.
class Partitioner {
 public:
  virtual ~Partitioner() = default;

  // This rank's place among those that share each batch, and their number.
  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;
  // Seconds that a rank waits for another before that is an error.
  virtual double timeout() const noexcept { return 600; }

  // Every rank's leaves become rank 0's, but for those of shards, of which each rank has its own. Error(communication)
  // as of expect_same where the ranks' states have not the same leaves.
  virtual void replicate(const State& state) const = 0;
  // For one backward pass that is going to write `grads`.
  virtual std::unique_ptr<GradientReduction> reduce(const Collection& grads, const DeviceContext& context) const = 0;
  // Each element becomes its mean over the ranks; f32 or f64.
  virtual void mean(const Tensor& values, const Stream& stream) const = 0;

  // The part of the params that this rank updates: by default all of them. Where it is one of several, the rank holds
  // the moments of that part alone, and of the gradients that part alone is the mean once they are reduced.
  virtual Shard update_shard() const noexcept { return {}; }
  // Each element, which tells of this rank's part, becomes the sum over the parts.
  virtual void sum_over_shards(const Tensor&, const Stream&) const {}
  // The collection, of which each rank has written its part, becomes the same on all.
  virtual void gather_shards(const Collection&, const Stream&) const {}

  // On the host, for decisions that have to be the same everywhere: each number becomes the largest of the ranks'.
  // Waits for all of them.
  virtual void agree(std::span<double> values) const = 0;
  // Rank 0's text.
  virtual std::string broadcast(const std::string& text) const = 0;
  // Where a rank's text, what it has of `what`, is not rank 0's: Error(communication) on all ranks, naming both and the
  // first lines that differ. Waits for all of them.
  virtual void expect_same(const std::string& what, const std::string& text) const = 0;
  // This rank has met an error that the others do not know of: the end of the world does not wait for them.
  virtual void set_failed() const noexcept = 0;
};

// What this rank's part of a batch counts against an even one, in the gradients that this thread queues while one
// lives.
class BatchWeight {
 public:
  explicit BatchWeight(double weight) noexcept : outer_(std::exchange(current_, weight)) {}
  ~BatchWeight() { current_ = outer_; }
  BatchWeight(const BatchWeight&) = delete;
  BatchWeight& operator=(const BatchWeight&) = delete;

  static double current() noexcept { return current_; }  // 1 without any

 private:
  double outer_;
  static inline constinit thread_local double current_ = 1;
};

// That of a state of any type; null where it has none.
template <class S>
std::shared_ptr<const Partitioner> partitioner_of(const S& state) {
  if constexpr (requires { state.partitioner(); }) {
    return state.partitioner();
  } else {
    return nullptr;
  }
}

}  // namespace giro
