#pragma once

#include <cstdint>

#include "kernels/pointwise/expression.h"

namespace giro::cuda {

// With at least this many classes, cross-entropy is a generated kernel that splits each row among a block's warps or
// several blocks. With fewer, each warp computes a whole row.
inline constexpr std::int64_t kClassesOfBlocks = 1025;

// The losses of ops::SoftmaxCrossEntropy, and `factor` times its gradients, unless dlogits is empty.
pointwise::Expression cross_entropy_rows(const Tensor& losses, const Tensor& dlogits, const Tensor& logits,
                                         const Tensor& labels, double factor);

}  // namespace giro::cuda
