#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <giro/runtime/state.h>
#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

namespace giro {

// Reduces the gradients of one backward pass over all ranks. If it is destroyed before finish(), this rank's gradients
// stay as they are.
class GradientReduction {
 public:
  virtual ~GradientReduction() = default;
  // The gradient at this position in its collection has been queued completely.
  virtual void ready(std::size_t leaf) = 0;
  // All gradients have been queued, including those without a call of ready(). Work queued from here on sees the mean
  // over the ranks.
  virtual void finish() = 0;
};

// How a state and the batches of its steps are distributed over ranks, and how the ranks communicate. With a
// partitioner, a step computes the same on any number of ranks. distributed/partitioner.h creates partitioners. Every
// rank makes the same calls in the same order. Errors of all calls: communication.
class Partitioner {
 public:
  virtual ~Partitioner() = default;

  // This rank's index among the ranks that share each batch, and their number.
  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;
  // How many seconds a rank waits for another before it reports an error.
  virtual double timeout() const noexcept { return 600; }

  // Copies rank 0's leaves to every rank, except sharded leaves, which differ by rank. Error(communication), as in
  // expect_same, if the ranks' states have different leaves.
  virtual void replicate(const State& state) const = 0;
  // For one backward pass that will write `grads`.
  virtual std::unique_ptr<GradientReduction> reduce(const Collection& grads, const DeviceContext& context) const = 0;
  // Each element becomes its mean over the ranks; f32 or f64.
  virtual void mean(const Tensor& values, const Stream& stream) const = 0;

  // The part of the params that this rank updates; by default all of them. If it is one of several, the rank holds only
  // that part's moments, and after the reduction only that part of the gradients is the mean.
  virtual Shard update_shard() const noexcept { return {}; }
  // Each element is a value of this rank's part and becomes the sum over the parts.
  virtual void sum_over_shards(const Tensor&, const Stream&) const {}
  // Each rank has written its part of the collection. Afterwards the collection is the same on all ranks.
  virtual void gather_shards(const Collection&, const Stream&) const {}

  // On the host, for decisions that must be the same everywhere: each number becomes the maximum over the ranks. Waits
  // for all ranks.
  virtual void all_reduce_max(std::span<double> values) const = 0;
  // Rank 0's text.
  virtual std::string broadcast(const std::string& text) const = 0;
  // Error(communication) on all ranks if a rank's `text`, which describes its `what`, differs from rank 0's. Names both
  // ranks and the first lines that differ. Waits for all ranks.
  virtual void expect_same(const std::string& what, const std::string& text) const = 0;
  // Marks this rank as failed, with an error that the others do not know about. The World's destructor then does not
  // wait for them.
  virtual void set_failed() const noexcept = 0;
};

// The partitioner of a state of any type, or null if it has none.
template <class S>
std::shared_ptr<const Partitioner> partitioner_of(const S& state) {
  if constexpr (requires { state.partitioner(); }) {
    return state.partitioner();
  } else {
    return nullptr;
  }
}

// A decision that depends on what only the host knows, such as a number, the time or a file: rank 0 makes it for all.
// Returns rank 0's decide() on every rank, as each throws its error. All ranks call this at the same place. Without
// ranks, decide().
std::string decide_on_rank_0(const Partitioner* ranks, const std::function<std::string()>& decide);
// A rank on which `here` is true; none if it is false on all ranks. All ranks call this at the same place.
std::optional<int> rank_with(const Partitioner* ranks, bool here);

}  // namespace giro
