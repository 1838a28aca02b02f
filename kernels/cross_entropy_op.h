#pragma once

#include <cstdint>

#include "kernels/op_cost.h"
#include "runtime/faults.h"

namespace giro::ops {

// Softmax cross-entropy with integer labels, and its gradient in the same pass:
//   losses[r]     = log(sum_c exp(logits[r, c])) - logits[r, labels[r]]
//   dlogits[r, c] = softmax(logits[r, :])[c] - (c == labels[r])
// dlogits may be omitted, or lie over logits. Everything is computed in f32; dlogits is rounded once. A label outside
// [0, C) makes its loss and its gradient row NaN.
struct SoftmaxCrossEntropy {
  static constexpr const char* kName = "softmax_cross_entropy";
  static constexpr const char* kArguments =
      "logits: s(r[c]), labels: i(r), call?: i64() -> losses: f32(r), dlogits?: s|f32(r[c])";
  Out losses{}, dlogits{};
  In logits{}, labels{};
  Fault fault{};  // of labels

  double flops() const { return 4 * elements(logits); }
};

// The mean of softmax_cross_entropy's losses, `factor` times the gradient of their sum, and the fraction of correct
// rows. dlogits and accuracy may be empty. For 1 to kMaxRows rows.
struct MeanCrossEntropy {
  static constexpr const char* kName = "mean_cross_entropy";
  static constexpr const char* kArguments =
      "logits: s([r][c]), labels: i([r]), call?: i64() -> loss: f32(), dlogits?: s|f32([r][c]), accuracy?: f32()";
  static constexpr std::int64_t kMaxRows = 4096;
  Out loss{}, dlogits{}, accuracy{};
  In logits{}, labels{};
  double factor = 1;
  Fault fault{};

  double flops() const { return ((dlogits ? 5 : 4) + (accuracy ? 1 : 0)) * elements(logits); }
};

// The gradient of a cross-entropy may lie over its logits.
template <class Op>
  requires requires(const Op& op) { op.dlogits.place() == op.logits.place(); }
bool may_write_over(const Op& op, const Tensor& write, const Tensor& read) {
  return write.place() == op.dlogits.place() && read.place() == op.logits.place() && write.dtype() == read.dtype();
}

}  // namespace giro::ops
