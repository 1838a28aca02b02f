#pragma once

#include <array>
#include <cstdint>

#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

namespace giro::cuda {

// x: images (N, H, W, C), f32, bf16 or f16. padded: larger images (N, PH, PW, C) that have x's first row and column at
// `offset`.

// padded = x with zeros around it.
void pad(const Tensor& padded, const Tensor& x, std::array<std::int64_t, 2> offset, const Stream& stream);

// x = its part of padded.
void crop(const Tensor& x, const Tensor& padded, std::array<std::int64_t, 2> offset, const Stream& stream);

}  // namespace giro::cuda
