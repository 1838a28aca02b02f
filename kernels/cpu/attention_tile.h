#pragma once

// Shared by the forward and backward passes of attention on the CPU: the op's arrays, a thread's memory, and tiles of
// scores.

#include <algorithm>
#include <cstdint>
#include <limits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "kernels/cpu/team.h"
#include "kernels/cpu/tile_loops.h"
#include "kernels/cpu/tile_product.h"
#include "kernels/expr/instruction_sets.h"
#include "kernels/expr/random_by_key.h"
#include "kernels/host_device/attention_pattern.h"
#include "kernels/ops.h"

namespace giro::cpu::attention {

using expr::Compiled;

// A tile has the scores of kQueries queries and kKeys keys. Keys are packed once for kChunk queries.
inline constexpr std::int64_t kQueries = 64, kKeys = 256, kChunk = 256;
static_assert(kChunk % kQueries == 0);
inline constexpr std::int64_t kScoreRow = kKeys + 16;  // so that rows map to different cache sets
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Kept {
  GIRO_LOOP_INLINE static void run(float* kept, std::int64_t n, std::int64_t key, std::int64_t place, float below,
                                   float factor) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) {
      kept[i] = expr::math::uniform_by_key(key, place + i) < below ? factor : 0.0f;
    }
  }
};

struct Scaled {
  GIRO_LOOP_INLINE static void run(float* y, const float* x, std::int64_t n, float factor) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] * factor;
  }
};

// Rows of f32, `row` apart.
struct Rows {
  const float* data;
  std::int64_t row;
};

// Heads of one of the op's arrays, (B, rows, heads, width), which may be omitted.
struct Array {
  char* data = nullptr;  // of the first head
  DType dtype = DType::f32;
  std::int64_t rows = 0, heads = 0, width = 0;
  std::int64_t row = 0;                      // distance between rows, in elements
  TileLoop read = nullptr, write = nullptr;  // null for f32

  explicit Array(const ops::Heads& of) {
    if (!of) return;
    dtype = of.array.dtype();
    rows = of.array.shape()[1];
    heads = of.count;
    width = of.array.shape()[3];
    row = of.array.shape()[2] * width;
    data = static_cast<char*>(of.data());
    if (dtype == DType::f32) return;
    read = conversion(dtype, DType::f32);
    write = conversion(DType::f32, dtype);
  }
  explicit operator bool() const { return data != nullptr; }
  char* at(std::int64_t b, std::int64_t i, std::int64_t head) const {
    return data + ((b * rows + i) * row + head * width) * static_cast<std::int64_t>(size_of(dtype));
  }
  // `count` rows of a head. 16-bit ones are converted into `scratch`.
  Rows get(std::int64_t b, std::int64_t first, std::int64_t head, std::int64_t count, float* scratch) const {
    if (read == nullptr) return {reinterpret_cast<const float*>(at(b, first, head)), row};
    for (std::int64_t i = 0; i < count; ++i) read(at(b, first + i, head), scratch + i * width, width);
    return {scratch, width};
  }
  // Stores `factor` times the row `values`, and may overwrite `values`. f32 rows bypass the caches, because they are
  // not contiguous and are not read again soon. Call end_of_streams() afterwards.
  void set(std::int64_t b, std::int64_t i, std::int64_t head, float* values, float factor) const {
    if (write != nullptr) {
      Compiled<Scaled>::all.get()(values, values, width, factor);
      return write(values, at(b, i, head), width);
    }
    float* const to = reinterpret_cast<float*>(at(b, i, head));
#if defined(__x86_64__)
    if (width % 16 == 0 && reinterpret_cast<std::uintptr_t>(to) % 64 == 0) {
      const __m128 factors = _mm_set1_ps(factor);
      for (std::int64_t d = 0; d < width; d += 4) _mm_stream_ps(to + d, _mm_mul_ps(_mm_loadu_ps(values + d), factors));
      return;
    }
#endif
    Compiled<Scaled>::all.get()(to, values, width, factor);
  }
};

// Divides a thread's memory into arrays of floats, each aligned to 64 bytes. Without memory, only counts the bytes.
class Floats {
 public:
  explicit Floats(float* memory = nullptr) : memory_(memory) {}
  float* take(std::int64_t count) {
    float* const taken = memory_ == nullptr ? nullptr : memory_ + used_;
    used_ += (count + 15) / 16 * 16;
    return taken;
  }
  std::size_t bytes() const { return static_cast<std::size_t>(used_) * sizeof(float); }

 private:
  float* memory_;
  std::int64_t used_ = 0;
};

// The arrays in this thread's memory.
template <class Arrays>
Arrays of_thread(std::int64_t keys, std::int64_t width, const TileProducts& products) {
  Floats count;
  Arrays(count, keys, width, products);
  Floats floats(reinterpret_cast<float*>(memory_of_thread(count.bytes())));
  return Arrays(floats, keys, width, products);
}

struct Common : host_device::AttentionInputs<Array> {
  std::int64_t batch, width;
  const TileProducts& products = tile_products();

  template <class Op>
  explicit Common(const Op& op) : AttentionInputs(op), batch(op.heads().query.shape()[0]), width(query.width) {}

  std::int64_t chunks() const { return (pattern.queries + kChunk - 1) / kChunk; }
  std::int64_t padded_width() const { return products.padded(width); }
  // The cost in elements, for for_each_part: a vector of products counts as one element.
  std::int64_t work() const { return batch * pattern.heads * pattern.queries * pattern.keys * width / 16; }

  // out (count, kScoreRow) = rows times the first `wanted` packed keys or values, rounded up to whole panels.
  void multiply_keys(float* out, const float* rows, const float* keys, std::int64_t count, std::int64_t packed,
                     std::int64_t wanted) const {
    const std::int64_t columns = std::min(packed, (wanted + products.width - 1) / products.width * products.width);
    products.multiply({out, kScoreRow, rows, width, 1, keys, width, count, columns, width, false});
  }

  // Sets the scores that the mask excludes to -inf.
  void apply_mask(float* scores, std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t first,
                  std::int64_t count) const {
    if (pattern.mask == nullptr) return;
    const std::int64_t step = pattern.mask_stride_s;
    const bool* const mask = pattern.mask_row(b, h, t) + first * step;
    for (std::int64_t s = 0; s < count; ++s) scores[s] = mask[s * step] ? scores[s] : -kInfinity;
  }

  void draw(float* kept, std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t first, std::int64_t count) const {
    Compiled<Kept>::all.get()(kept, count, pattern.key_of_dropout(), pattern.dropout_index(b, h, t) + first,
                              pattern.keep_threshold, pattern.keep_scale);
  }

  void scale_rows(float* to, const Rows& rows, std::int64_t count) const {
    for (std::int64_t i = 0; i < count; ++i) {
      Compiled<Scaled>::all.get()(to + i * width, rows.data + i * rows.row, width, scale);
    }
  }
};

}  // namespace giro::cpu::attention
