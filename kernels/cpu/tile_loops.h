#pragma once

#include <cstddef>
#include <cstdint>

#include <giro/runtime/dtype.h>

namespace giro::cpu {

// A loop over n elements; `out` may be `in` where the elements of both are as large.
using TileLoop = void (*)(const void* in, void* out, std::int64_t n);

// From one dtype that values are computed in to another, or between f32 and what stores 16 bits. To integers it
// truncates, gives what is out of range the nearest one there is, and NaN zero; from integers to others it wraps.
TileLoop conversion(DType from, DType to);

// f32 rounded to what a dtype of 16 bits holds.
TileLoop rounding(DType to);

// Each of n elements of so many bytes, `each` times.
void repeat(std::size_t size, const std::byte* in, std::int64_t in_stride, std::byte* out, std::int64_t n,
            std::int64_t each);

// Copies n elements of so many bytes.
void copy_strided(std::size_t size, const std::byte* in, std::int64_t in_stride, std::byte* out,
                  std::int64_t out_stride, std::int64_t n);

}  // namespace giro::cpu
