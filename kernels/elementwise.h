#pragma once

#include <cstdint>

#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

namespace giro {

// Elementwise operations over tensors of one shape on the stream's device. Outputs may alias inputs of the same
// dtype. Sums and products of bf16 and f16 are computed in f32 and rounded once.
// Errors: shape_mismatch, dtype_mismatch, device_mismatch.

// out = a + b, out = a * b; all of one floating dtype.
void add(const Tensor& out, const Tensor& a, const Tensor& b, const Stream& stream);
void multiply(const Tensor& out, const Tensor& a, const Tensor& b, const Stream& stream);

// out = factor * a, computed in f32 (f64 where either side is f64); `out` is floating, `a` of any dtype.
void scale(const Tensor& out, const Tensor& a, double factor, const Stream& stream);

// out = a, converted. Floating to integer truncates toward zero; values out of range are undefined, as in C++.
// To bool: nonzero is true.
void cast(const Tensor& out, const Tensor& a, const Stream& stream);

// out[i] = value, any dtype.
void fill(const Tensor& out, double value, const Stream& stream);

// out[r, :] = a[r, :] * factors[r]; f32. out and a (R, ...), factors (R,).
void scale_rows(const Tensor& out, const Tensor& a, const Tensor& factors, const Stream& stream);

// out[i] = factor * scalar[0] for every i; f32. The gradient of a sum or mean.
void broadcast(const Tensor& out, const Tensor& scalar, double factor, const Stream& stream);

// counter[0] += amount; i64.
void increment(const Tensor& counter, std::int64_t amount, const Stream& stream);

}  // namespace giro
