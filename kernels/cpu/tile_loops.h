#pragma once

#include <cstddef>
#include <cstdint>

#include <giro/runtime/dtype.h>

namespace giro::cpu {

// A loop over n elements. `out` may be `in` if their elements have the same size.
using TileLoop = void (*)(const void* in, void* out, std::int64_t n);

// Converts between dtypes in which values are computed, or between f32 and a 16-bit dtype. Floats to integers truncate
// and saturate, and NaN becomes 0; integers to smaller integers wrap.
TileLoop conversion(DType from, DType to);

// Rounds f32 to values that the 16-bit dtype can hold.
TileLoop rounding(DType to);

// Writes each of n elements of `size` bytes `each` times.
void repeat(std::size_t size, const std::byte* in, std::int64_t in_stride, std::byte* out, std::int64_t n,
            std::int64_t each);

// Copies n elements of `size` bytes.
void copy_strided(std::size_t size, const std::byte* in, std::int64_t in_stride, std::byte* out,
                  std::int64_t out_stride, std::int64_t n);

}  // namespace giro::cpu
