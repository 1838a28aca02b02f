#pragma once

#include <memory>
#include <vector>

#include <giro/kernels/nn/partitioner.h>
#include <giro/kernels/nn/var.h>

namespace giro::nn {

// The mean of the ranks' values; its gradient is such a mean, too. Each rank differentiates its own loss, and the mean
// of their gradients is that of the whole loss.
inline Var mean_of_ranks(std::shared_ptr<const Partitioner> ranks, const Var& x) {
  Var y = Var::computed(x.dtype(), x.shape(), {x}, [ranks](const Var&, const Var& dy, const std::vector<Var>&) {
    return mean_of_ranks(ranks, dy);
  });
  copy(y.value(), x.value(), y.stream());
  ranks->mean(y.value(), y.stream());
  return y;
}

}  // namespace giro::nn
