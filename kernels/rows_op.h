#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/op_cost.h"
#include "runtime/faults.h"

namespace giro::ops {

// Ops along the rows of an array, and by the indices of rows.

struct SumRows {
  static constexpr const char* kName = "sum_rows";
  static constexpr const char* kArguments = "x: s(rc) -> out: s|f32(c)";
  Out out{};
  In x{};

  double flops() const { return elements(x); }
};

// Along rows: y[r, i] = the sum, product or maximum of x[r, 0] to x[r, i] or, if reversed, of x[r, i] to x[r, L - 1].
// Floats are computed in double and rounded once per element; integers wrap; a NaN is larger than every number. The
// order of operations depends on L alone, so repeated runs give the same bits.
struct Cumulative {
  enum class Of { sum, product, max };
  static constexpr const char* kName = "cumulative";
  static constexpr const char* kArguments = "x: n(r[l]) -> y: n(r[l])";
  Out y{};
  In x{};
  Of of = Of::sum;
  bool reversed = false;

  double flops() const { return elements(x); }
};

// The order of each row: indices[r, i] is the position in x[r, :] of its i-th smallest element or, if descending, of
// its i-th largest one. Equal elements keep their order. NaN is larger than every number, -0 equals 0. Only the first k
// are written, which are no more than the row has.
struct ArgSort {
  static constexpr const char* kName = "argsort";
  static constexpr const char* kArguments = "x: *(r[l]) -> indices: i64(r[k])";
  Out indices{};
  In x{};
  bool descending = false;

  double flops() const { return elements(x) * std::log2(2 + elements(x)); }
};

// out[..., r, ...] = src[..., indices[r], ...] along an axis. Where an index is outside of the axis, the result is NaN,
// or 0 if it is not floating.
struct GatherRows {
  static constexpr const char* kName = "gather_rows";
  Out out{};
  In src{}, indices{};
  std::size_t axis = 0;
  Fault fault{};

  const detail::OpSignature& arguments() const {
    static_assert(Shape::kMaxRank == 6);
    static const detail::OpSignature along[]{
        detail::OpSignature("src: t([n]...), indices: i(r), call?: i64() -> out: t(r...)"),
        detail::OpSignature("src: t(a[n]...), indices: i(r), call?: i64() -> out: t(ar...)"),
        detail::OpSignature("src: t(ab[n]...), indices: i(r), call?: i64() -> out: t(abr...)"),
        detail::OpSignature("src: t(abc[n]...), indices: i(r), call?: i64() -> out: t(abcr...)"),
        detail::OpSignature("src: t(abcd[n]...), indices: i(r), call?: i64() -> out: t(abcdr...)"),
        detail::OpSignature("src: t(abcde[n]), indices: i(r), call?: i64() -> out: t(abcder)"),
    };
    return along[axis];
  }
  // The product of the axes before it.
  std::int64_t outer() const { return Shape(std::span(src.shape().begin(), axis)).count(); }
  std::int64_t bytes() const { return 2 * bytes_of(out) + bytes_of(indices); }
};

// The dtype of sums of updates: f32 for bf16 and f16, i64 for integers, else the same.
constexpr DType dtype_of_sums(DType updates) {
  if (is_16_bit(updates)) return DType::f32;
  return is_floating(updates) ? updates : DType::i64;
}

// sums[n, ...] is the sum of all updates[r, ...] with indices[r] == n, or 0 if there are none; an index outside [0, N)
// is ignored. `order` is the argsort of the indices, or empty if no index occurs twice. The updates are added by index,
// in an order that depends on the indices alone, so repeated runs give the same bits.
struct ScatterAdd {
  static constexpr const char* kName = "scatter_add";
  static constexpr const char* kArguments =
      "updates: s|f64|i64(r...), indices: i(r), order?: i64(r) -> sums: f32|f64|i64([n]...)";
  Out sums{};
  In updates{}, indices{}, order{};

  double flops() const { return elements(updates); }
  std::int64_t bytes() const { return bytes_of(sums) + 2 * bytes_of(updates) + bytes_of(indices) + bytes_of(order); }
};

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
