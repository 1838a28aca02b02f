#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

#include "kernels/expr/expression_op.h"
#include "kernels/expr/term.h"

// Expressions on tensors, for what giro itself computes. Operands fit each other.
namespace giro::ops {

// Writes one whole array: value(read), converted to its dtype, for each element of the space. read(array) has the
// array's elements, and read(array, shape) those of an array that is broadcast from the shape to the space.
template <class Value>
void write_each(const char* op, const Tensor& out, const Shape& space, const Stream& stream, const Value& value) {
  expr::Builder code(space);
  const auto read = [&](const Tensor& array, std::optional<Shape> shape = {}) {
    return code.read(array, expr::broadcast_layout(shape.value_or(space), space));
  };
  value(read).cast(out.dtype()).write(out, expr::broadcast_layout(space, space));
  queue(op, std::move(code).take(), stream);
}

// out = a + b, all of one floating dtype.
void add(const Tensor& out, const Tensor& a, const Tensor& b, const Stream& stream);
// y += b along the last axis of y, and then y = relu(y) if `relu`. b has y's dtype or f32, or is empty.
void add_bias(const Tensor& y, const Tensor& b, const Stream& stream, bool relu = false);
// out = a, converted. Floating to integer truncates toward zero; values out of range are undefined, as in C++. To bool:
// nonzero is true.
void cast(const Tensor& out, const Tensor& a, const Stream& stream);
void fill(const Tensor& out, double value, const Stream& stream);
// out = factor * a, computed in f32, or f64 where either is f64.
void scale(const Tensor& out, const Tensor& a, double factor, const Stream& stream);
// counter[0] += amount; i64.
void increment(const Tensor& counter, std::int64_t amount, const Stream& stream);
// Of all elements of x, f32: the mean, and in f64 the sum of squares, so that none overflows.
void mean(const Tensor& out, const Tensor& x, const Stream& stream);
void sum_of_squares(const Tensor& out, const Tensor& x, const Stream& stream);

// The expression of the op `correct`: for each row, 1 where the largest logit (the first, if tied) is at the label,
// else 0. A row with a NaN is wrong.
expr::Expression correct_rows(const Tensor& out, const Tensor& logits, const Tensor& labels);

// A 64-bit digest of bytes (n,) that detects accidental differences in any byte; not cryptographic. digest[0], i64, =
// the sum over i, modulo 2^64, of mix(word[i] + (i + 1) 0x9E3779B97F4A7C15). mix is from SplitMix64
// (https://prng.di.unimi.it/splitmix64.c); word[i] is the i-th little-endian word of 8 bytes, aligned like
// Collection::bytes(). The result does not depend on the device or the number of threads.
// Errors: shape_mismatch, dtype_mismatch, invalid_argument.
void digest(const Tensor& digest, const Tensor& bytes, const Stream& stream);

// Moments of values, which may be spread over several ranks. Means, standard deviations, counts and sums are f64 and
// are computed in f64.

// The mean, the population standard deviation sqrt(mean((x - mean)^2)), unless that is empty, and the number of values
// used; all scalars. values f32 of any shape. mask boolean, with the shape of values or of their first axes: where it
// is false, a value is ignored, even if it is NaN. An empty mask uses all values. If none are used, mean and deviation
// are NaN. Error(shape_mismatch) for another mask. The order of the sums depends only on the shape, so repeated runs
// give the same bits.
void moments(const Tensor& mean, const Tensor& deviation, const Tensor& count, const Tensor& values, const Tensor& mask,
             const Stream& stream);

// sums (3,) = count * (mean, mean^2 + deviation^2, 1), which can be added across ranks; zeros if the count is 0. An
// empty deviation means 0.
void moment_sums(const Tensor& sums, const Tensor& mean, const Tensor& deviation, const Tensor& count,
                 const Stream& stream);
// The inverse: the moments from factor * sums.
void moments_of_sums(const Tensor& mean, const Tensor& deviation, const Tensor& count, const Tensor& sums,
                     double factor, const Stream& stream);

}  // namespace giro::ops
