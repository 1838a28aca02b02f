#pragma once

#include <cstdint>

#include "kernels/pointwise/expression.h"

namespace giro::cuda {

// From this many classes on, cross-entropy is a generated kernel, which shares each row among a block's warps or among
// several blocks. Below, a warp has a row of its own.
inline constexpr std::int64_t kClassesOfBlocks = 1025;

// The losses of ops::SoftmaxCrossEntropy, and `factor` times its gradients, unless dlogits is empty.
pointwise::Expression cross_entropy_rows(const Tensor& losses, const Tensor& dlogits, const Tensor& logits,
                                         const Tensor& labels, double factor);

}  // namespace giro::cuda
