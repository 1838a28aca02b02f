#pragma once

// The ops that are not expressions, as programs hold them (runtime/program/op.h); attention is in attention_op.h. Their
// arguments have been checked. The public headers describe the ops that users call; ops that only rules create are
// described here.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <giro/kernels/conv2d.h>
#include <giro/kernels/cumulative.h>
#include <giro/kernels/gather.h>
#include <giro/kernels/math_mode.h>
#include <giro/kernels/matmul.h>
#include <giro/kernels/pool.h>
#include <giro/kernels/slots.h>

#include "runtime/faults.h"
#include "runtime/program/op.h"

namespace giro::ops {

// For the costs of ops.
inline double elements(const Tensor& tensor) { return static_cast<double>(tensor.count()); }
inline double scaled_bytes(const Tensor& tensor) { return tensor.dtype() == DType::u8 ? elements(tensor) : 0; }
inline std::int64_t bytes_of(const Tensor& tensor) { return static_cast<std::int64_t>(tensor.bytes()); }

// A rule may replace x, only on the CPU and in layers that narrow_dense.h can run, by bytes to be multiplied by
// `factor`.
struct Dense {
  static constexpr const char* kName = "dense";
  static constexpr const char* kDims = "bi, io, o -> bo";
  Out y{};
  In x{}, w{}, b{};
  MathMode math = MathMode::f32;
  double factor = 1;

  double flops() const {
    return 2 * elements(x) * static_cast<double>(w.shape()[1]) + (b ? elements(y) : 0) + scaled_bytes(x);
  }
};

// x is only given if dw is wanted, w only if dx is. x may be bytes, as above.
struct DenseBackward {
  static constexpr const char* kName = "dense_backward";
  static constexpr const char* kDims = "bo, bi, io -> bi, io, o";
  Out dx{}, dw{}, db{};
  In dz{}, x{}, w{};
  MathMode math = MathMode::f32;
  double factor = 1;

  double flops() const {
    const double inputs = static_cast<double>(x ? x.shape()[1] : w ? w.shape()[0] : 0);
    return ((dx ? 2 : 0) + (dw ? 2 : 0)) * elements(dz) * inputs + (db ? elements(dz) : 0) + scaled_bytes(x);
  }
};

// Adds to dw, which is f32.
struct DenseBackwardAdd {
  static constexpr const char* kName = "dense_backward_add";
  static constexpr const char* kDims = "bo, bi -> io, o";
  InOut dw{};
  Out db{};
  In dz{}, x{};
  MathMode math = MathMode::f32;

  double flops() const {
    return 2 * elements(x) * static_cast<double>(dz.shape()[1]) + elements(dw) + (db ? elements(dz) : 0);
  }
};

// Both operands have at least two axes.
struct Matmul {
  static constexpr const char* kName = "matmul";
  Out out{};
  In a{}, b{};
  MatmulOptions options{};
  MathMode math = MathMode::f32;

  std::string dims() const {
    const char* const of_a = options.transpose_a ? "...km, " : "...mk, ";
    const char* const of_b = options.transpose_b ? "...nk" : "...kn";
    return std::string(of_a) + of_b + " -> ...mn";
  }
  double flops() const { return 2 * elements(out) * static_cast<double>(a.shape()[options.transpose_a ? -2 : -1]); }
};

// Products of contiguous matrices: out (B, M, N); a and b have B matrices each, or one for all products.
struct StridedBatch {
  Tensor out, a, b;
};

// Splits the op into batches that the libraries accept; several if a and b broadcast along different axes.
std::vector<StridedBatch> strided_batches(const Matmul& op);

struct Conv2d {
  static constexpr const char* kName = "conv2d";
  static constexpr const char* kDims = "n[h][w](gc), (go)[k][l]c, (go) -> n[p][q](go)";
  Out y{};
  In x{}, w{}, b{};
  Conv2dOptions options{};
  MathMode math = MathMode::f32;
  // Set by rules, only on a GPU. has_pool: after a relu, y holds the means of 2 x 2 windows, which tile the result; for
  // few channels (few_channels.h). Without it, has_relu needs a b of y's dtype.
  bool has_relu = false, has_pool = false;

  double flops() const {
    const double each = 2 * static_cast<double>(w.count() / w.shape()[0]) + (b ? 1 : 0) + (has_relu ? 1 : 0);
    return (has_pool ? 4 * (each + 1) : each) * elements(y);
  }
};

// x is only given if dw is wanted, w only if dx is. If a rule has set has_pool, dz is the gradient of the means above.
// Then w and b are given, to compute the relu's input again, and dx is empty.
struct Conv2dBackward {
  static constexpr const char* kName = "conv2d_backward";
  static constexpr const char* kDims = "n[p][q](go), n[h][w](gc), (go)[k][l]c, (go) -> n[h][w](gc), (go)[k][l]c, (go)";
  Out dx{}, dw{}, db{};
  In dz{}, x{}, w{}, b{};
  Conv2dOptions options{};
  MathMode math = MathMode::f32;
  bool has_pool = false;

  Shape x_shape() const { return x ? x.shape() : dx.shape(); }
  Shape w_shape() const { return w ? w.shape() : dw.shape(); }
  double flops() const {
    const double terms = dx || dw ? static_cast<double>(w_shape().count() / w_shape()[0]) : 0;
    const double each = ((dx ? 2 : 0) + (dw ? 2 : 0) + (has_pool ? 2 : 0)) * terms + (db ? 1 : 0);
    return (has_pool ? 4 : 1) * each * elements(dz);
  }
};

// A rule may apply the relu before it, if the windows tile x.
struct AvgPool {
  static constexpr const char* kName = "avg_pool";
  static constexpr const char* kDims = "n[h][w]c -> n[p][q]c";
  Out y{};
  In x{};
  PoolOptions options{};
  bool has_relu = false;

  double flops() const { return (has_relu ? 2 : 1) * elements(x); }
};

// If the windows tile dx, rules may combine it with the gradient of the relu before it, for which x is the relu's input
// or output, and with the sum of dx over all pixels, db (C). dx may then be x.
struct AvgPoolBackward {
  static constexpr const char* kName = "avg_pool_backward";
  static constexpr const char* kDims = "n[p][q]c, n[h][w]c -> n[h][w]c, c";
  Out dx{}, db{};
  In dy{}, x{};
  PoolOptions options{};
  bool has_relu = false;

  double flops() const { return (1 + (has_relu ? 1 : 0) + (db ? 1 : 0)) * elements(dx); }
};

struct MaxPool {
  static constexpr const char* kName = "max_pool";
  static constexpr const char* kDims = "n[h][w]c -> n[p][q]c";
  Out y{};
  In x{};
  PoolOptions options{};

  double flops() const { return elements(x); }
};

struct MaxPoolBackward {
  static constexpr const char* kName = "max_pool_backward";
  static constexpr const char* kDims = "n[p][q]c, n[h][w]c, n[p][q]c -> n[h][w]c";
  Out dx{};
  In dy{}, x{}, y{};
  PoolOptions options{};

  double flops() const { return elements(dx); }
};

struct Cumulative {
  static constexpr const char* kName = "cumulative";
  static constexpr const char* kDims = "r[l] -> r[l]";
  Out y{};
  In x{};
  giro::Cumulative of = giro::Cumulative::sum;
  bool reversed = false;

  double flops() const { return elements(x); }
};

struct Digest {
  static constexpr const char* kName = "digest";
  static constexpr const char* kDims = "_ -> _";
  Out digest{};
  In bytes{};
};

struct SumRows {
  static constexpr const char* kName = "sum_rows";
  static constexpr const char* kDims = "rc -> c";
  Out out{};
  In x{};

  double flops() const { return elements(x); }
};

struct SoftmaxCrossEntropy {
  static constexpr const char* kName = "softmax_cross_entropy";
  static constexpr const char* kDims = "r[c], r,  -> r, r[c]";
  Out losses{}, dlogits{};
  In logits{}, labels{};
  Fault fault{};  // of labels

  double flops() const { return 4 * elements(logits); }
};

// The mean of softmax_cross_entropy's losses, `factor` times the gradient of their sum, and the fraction of correct
// rows. dlogits and accuracy may be empty. For 1 to kMaxRows rows.
struct MeanCrossEntropy {
  static constexpr const char* kName = "mean_cross_entropy";
  static constexpr const char* kDims = "r[c], r,  -> , r[c], ";
  static constexpr std::int64_t kMaxRows = 4096;
  Out loss{}, dlogits{}, accuracy{};
  In logits{}, labels{};
  double factor = 1;
  Fault fault{};

  double flops() const { return ((dlogits ? 5 : 4) + (accuracy ? 1 : 0)) * elements(logits); }
};

// The gradient of a cross-entropy may lie over its logits.
template <class Op>
  requires requires(const Op& op) { op.dlogits.raw() == op.logits.raw(); }
bool may_write_over(const Op& op, const Tensor& write, const Tensor& read) {
  return write.raw() == op.dlogits.raw() && read.raw() == op.logits.raw() && write.dtype() == read.dtype();
}

struct GatherRows {
  static constexpr const char* kName = "gather_rows";
  Out out{};
  In src{}, indices{};
  std::size_t axis = 0;
  Fault fault{};

  std::string dims() const {
    const std::string before = std::string("abcdef").substr(0, axis);
    return before + "[n]..., r,  -> " + before + "r...";
  }
  // The product of the axes before it.
  std::int64_t outer() const { return Shape(std::span(src.shape().begin(), axis)).count(); }
  std::int64_t bytes() const { return 2 * bytes_of(out) + bytes_of(indices); }
};

struct ArgSort {
  static constexpr const char* kName = "argsort";
  static constexpr const char* kDims = "r[l] -> r[k]";
  Out indices{};
  In x{};
  bool descending = false;

  double flops() const { return elements(x) * std::log2(2 + elements(x)); }
};

// order is the argsort of indices, or empty if no index occurs twice.
struct ScatterAdd {
  static constexpr const char* kName = "scatter_add";
  static constexpr const char* kDims = "r..., r, r -> [n]...";
  Out sums{};
  In updates{}, indices{}, order{};

  double flops() const { return elements(updates); }
  std::int64_t bytes() const { return bytes_of(sums) + 2 * bytes_of(updates) + bytes_of(indices) + bytes_of(order); }
};

struct BatchIndices {
  static constexpr const char* kName = "batch_indices";
  static constexpr const char* kDims = "_, -> r";
  Out indices{};
  In slots{}, call{};
  RowOrder order{};

  ByteRing positions() const { return {slots, call}; }
  std::int64_t bytes() const { return bytes_of(indices); }
};

// One array of a batch: out[r, ...] = src[row, ...] or, for bytes to f32, bf16 or f16, factor * src[row, ...].
struct GatheredArray {
  Out out{};  // (R, ...)
  In src{};   // (N, ...), of the same dtype, or u8
  float factor = 1;
};

// Gathers rows of several arrays at once: rows order(position + r), with the position as in batch_indices. At most
// kMax arrays, all with the same number of rows.
struct GatherBatch {
  static constexpr const char* kName = "gather_batch";
  static constexpr std::size_t kMax = 8;
  In slots{}, call{};
  std::vector<GatheredArray> arrays{};
  RowOrder order{};

  ByteRing positions() const { return {slots, call}; }
  double flops() const {
    double flops = 0;
    for (const GatheredArray& array : arrays) flops += array.out.dtype() != array.src.dtype() ? elements(array.out) : 0;
    return flops;
  }
  std::int64_t bytes() const {
    std::int64_t bytes = 0;
    for (const auto& [out, src, factor] : arrays) {
      bytes += bytes_of(out) + out.count() * static_cast<std::int64_t>(size_of(src.dtype()));
    }
    return bytes;
  }
};

struct ReadSlot {
  static constexpr const char* kName = "read_slot";
  static constexpr const char* kDims = "_, -> _";
  Out out{};
  In slots{}, call{};
  std::int64_t offset = 0;

  ByteRing ring() const { return {slots, call}; }
  std::int64_t bytes() const { return 2 * bytes_of(out); }
};

struct WriteSlot {
  static constexpr const char* kName = "write_slot";
  static constexpr const char* kDims = ", _ -> _";
  InOut slots{};  // only part of one slot changes
  In call{}, in{};
  std::int64_t offset = 0;

  ByteRing ring() const { return {slots, call}; }
  std::int64_t bytes() const { return 2 * bytes_of(in); }
};

}  // namespace giro::ops
