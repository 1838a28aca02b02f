#pragma once

// Ops on tensors, as giro's own code queues them: each is one op of a program.

#include <cstddef>
#include <cstdint>
#include <vector>

#include <giro/kernels/math_mode.h>
#include <giro/runtime/buffer.h>
#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

#include "kernels/elementwise.h"
#include "kernels/ops.h"
#include "kernels/publish_op.h"

namespace giro {

using Cumulative = ops::Cumulative::Of;
using ops::add, ops::cast, ops::digest, ops::fill, ops::increment, ops::mean, ops::scale, ops::sum_of_squares;
using ops::moment_sums, ops::moments, ops::moments_of_sums;

inline void multiply(const Tensor& out, const Tensor& a, const Tensor& b, const Stream& stream) {
  ops::write_each("multiply", out, {out.count()}, stream, [&](const auto& read) {
    const expr::Term first = read(a);
    return first * read(b);
  });
}
// out[r, :] = a[r, :] * factors[r].
inline void scale_rows(const Tensor& out, const Tensor& a, const Tensor& factors, const Stream& stream) {
  const std::int64_t rows = a.shape()[0];
  ops::write_each("scale_rows", out, {rows, rows > 0 ? a.count() / rows : 0}, stream, [&](const auto& read) {
    const expr::Term value = read(a);
    return value * read(factors, Shape{rows, 1});
  });
}
// out[i] = factor * scalar.
inline void broadcast(const Tensor& out, const Tensor& scalar, double factor, const Stream& stream) {
  ops::write_each("broadcast", out, {out.count()}, stream,
                  [&](const auto& read) { return read(scalar, Shape{}) * factor; });
}
inline void sum(const Tensor& out, const Tensor& x, const Stream& stream) {
  expr::Builder code({x.count()}, 1);
  code.read(x, expr::broadcast_layout({x.count()}, {x.count()})).sum().write(out, {});
  queue("sum", std::move(code).take(), stream);
}
inline void sum_rows(const Tensor& out, const Tensor& x, const Stream& s) { queue(ops::SumRows{out, x}, s); }

inline void correct(const Tensor& out, const Tensor& logits, const Tensor& labels, const Stream& stream) {
  queue("correct", ops::correct_rows(out, logits, labels), stream);
}
inline void accuracy(const Tensor& out, const Tensor& logits, const Tensor& labels, const Stream& stream) {
  const Buffer memory = stream.allocate(static_cast<std::size_t>(labels.count()) * sizeof(float));
  const Tensor rows(memory.data(), DType::f32, labels.shape(), stream.device());
  correct(rows, logits, labels, stream);
  ops::mean(out, rows, stream);
}
inline void softmax_cross_entropy(const Tensor& losses, const Tensor& dlogits, const Tensor& logits,
                                  const Tensor& labels, const Stream& stream) {
  queue(ops::SoftmaxCrossEntropy{losses, dlogits, logits, labels}, stream);
}

inline void argsort(const Tensor& indices, const Tensor& x, bool descending, const Stream& stream) {
  queue(ops::ArgSort{indices, x, descending}, stream);
}
inline void cumulative(const Tensor& y, const Tensor& x, Cumulative of, bool reversed, const Stream& stream) {
  queue(ops::Cumulative{y, x, of, reversed}, stream);
}
inline void gather_rows(const Tensor& out, const Tensor& src, const Tensor& indices, const Stream& stream,
                        std::size_t axis = 0) {
  queue(ops::GatherRows{out, src, indices, axis, {}}, stream);
}
inline void scatter_add(const Tensor& sums, const Tensor& updates, const Tensor& indices, bool are_distinct,
                        const Stream& stream) {
  const std::int64_t count = indices.count();
  if (are_distinct || count < 2) return queue(ops::ScatterAdd{sums, updates, indices, {}}, stream);
  const Buffer memory = stream.allocate(static_cast<std::size_t>(count) * sizeof(std::int64_t));
  const Tensor order(memory.data(), DType::i64, {1, count}, stream.device());
  argsort(order, indices.reshape({1, count}), false, stream);
  queue(ops::ScatterAdd{sums, updates, indices, order.reshape({count})}, stream);
}
inline void batch_indices(const Tensor& indices, const ByteRing& positions, const RowOrder& order, const Stream& s) {
  queue(ops::BatchIndices{indices, positions.slots, positions.call, order}, s);
}
inline void read_slot(const Tensor& out, const ByteRing& ring, std::int64_t offset, const Stream& stream) {
  queue(ops::ReadSlot{out, ring.slots, ring.call, offset}, stream);
}
inline void write_slot(const ByteRing& ring, std::int64_t offset, const Tensor& in, const Stream& stream) {
  queue(ops::WriteSlot{ring.slots, ring.call, in, offset}, stream);
}

inline void matmul(const Tensor& out, const Tensor& a, const Tensor& b, const MatmulOptions& options, MathMode math,
                   const Stream& stream) {
  // A vector is a row of a, or a column of b.
  const bool of_a = a.shape().rank() == 1, of_b = b.shape().rank() == 1;
  const Tensor left = of_a ? a.reshape({1, a.count()}) : a, right = of_b ? b.reshape({b.count(), 1}) : b;
  const MatmulOptions flags{options.transpose_a && !of_a, options.transpose_b && !of_b};
  const Tensor product = of_a || of_b ? out.reshape(matmul_shape(left.shape(), right.shape(), flags)) : out;
  queue(ops::Matmul{product, left, right, flags, math}, stream);
}
inline void dense(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& b, MathMode math, const Stream& s) {
  queue(ops::Dense{y, x, w, b, math}, s);
}
inline void dense(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& b, const Stream& stream) {
  dense(y, x, w, b, MathMode::f32, stream);
}
// An empty output is not computed.
inline void dense_backward(const Tensor& dx, const Tensor& dw, const Tensor& db, const Tensor& dz, const Tensor& x,
                           const Tensor& w, MathMode math, const Stream& stream) {
  queue(ops::DenseBackward{dx, dw, db, dz, dw ? x : Tensor(), dx ? w : Tensor(), math}, stream);
}
inline void dense_backward(const Tensor& dx, const Tensor& dw, const Tensor& db, const Tensor& dz, const Tensor& x,
                           const Tensor& w, const Stream& stream) {
  dense_backward(dx, dw, db, dz, x, w, MathMode::f32, stream);
}
inline void conv2d(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& b, const Conv2dOptions& options,
                   MathMode math, const Stream& stream) {
  queue(ops::Conv2d{y, x, w, b, options, math}, stream);
}
inline void conv2d(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& b, const Conv2dOptions& options,
                   const Stream& stream) {
  conv2d(y, x, w, b, options, MathMode::f32, stream);
}
inline void conv2d_backward(const Tensor& dx, const Tensor& dw, const Tensor& db, const Tensor& dz, const Tensor& x,
                            const Tensor& w, const Conv2dOptions& options, MathMode math, const Stream& stream) {
  ops::Conv2dBackward op{.dx = dx, .dw = dw, .db = db, .dz = dz, .options = options, .math = math};
  if (dw) op.x = x;
  if (dx) op.w = w;
  queue(std::move(op), stream);
}
inline void conv2d_backward(const Tensor& dx, const Tensor& dw, const Tensor& db, const Tensor& dz, const Tensor& x,
                            const Tensor& w, const Conv2dOptions& options, const Stream& stream) {
  conv2d_backward(dx, dw, db, dz, x, w, options, MathMode::f32, stream);
}
inline void avg_pool(const Tensor& y, const Tensor& x, const PoolOptions& options, const Stream& stream) {
  queue(ops::AvgPool{y, x, options}, stream);
}
inline void avg_pool_backward(const Tensor& dx, const Tensor& dy, const PoolOptions& options, const Stream& stream) {
  queue(ops::AvgPoolBackward{.dx = dx, .dy = dy, .options = options}, stream);
}
inline void max_pool(const Tensor& y, const Tensor& x, const PoolOptions& options, const Stream& stream) {
  queue(ops::MaxPool{y, x, options}, stream);
}
inline void max_pool_backward(const Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& y,
                              const PoolOptions& options, const Stream& stream) {
  queue(ops::MaxPoolBackward{dx, dy, x, y, options}, stream);
}

}  // namespace giro
