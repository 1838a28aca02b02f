#pragma once

#include <cstdint>

#include <giro/runtime/rng.h>

#include "kernels/expr/arithmetic.h"
#include "kernels/expr/math.h"

// Random numbers as functions of a key and an index (runtime/rng.h). For GPUs see kernels/cuda/expression_prelude.cpp.
namespace giro::expr::math {

static_assert(static_cast<int>(RngPurpose::draw) == 2 && static_cast<int>(RngPurpose::key) == 3);
#define GIRO_ARITHMETIC GIRO_LOOP_INLINE
#define GIRO_DEVICE_CODE(...) __VA_ARGS__
#include "kernels/expr/random_by_key_code.h"
#undef GIRO_DEVICE_CODE
#undef GIRO_ARITHMETIC

// uniform_by_key for arrays. Four consecutive numbers come from one Philox block, which is computed only once if the
// indices count up under one key, as for a tensor's elements.
struct UniformLoop {
  static constexpr int kBlocks = 8, kNumbers = 4 * kBlocks;

  GIRO_LOOP_INLINE static void run(const void* const* in, void* out, std::int64_t n) {
    const auto* key = static_cast<const std::int64_t*>(in[0]);
    const auto* index = static_cast<const std::int64_t*>(in[1]);
    auto* y = static_cast<float*>(out);
    for (; n >= kNumbers; n -= kNumbers, key += kNumbers, index += kNumbers, y += kNumbers) {
      if (is_whole_blocks(key, index)) {
        of_blocks(*key, static_cast<std::uint64_t>(*index) / 4, y);
      } else {
        one_by_one(key, index, y, kNumbers);
      }
    }
    one_by_one(key, index, y, n);
  }

 private:
  GIRO_LOOP_INLINE static bool is_whole_blocks(const std::int64_t* key, const std::int64_t* index) {
    std::int64_t differs = index[0] % 4;
    for (int i = 0; i < kNumbers; ++i) differs |= (key[i] ^ key[0]) | (index[i] ^ (index[0] + i));
    return differs == 0;
  }
  GIRO_LOOP_INLINE static void of_blocks(std::int64_t key, std::uint64_t first, float* y) {
    const Rng rng{static_cast<std::uint64_t>(key), RngPurpose::draw};
#pragma omp simd
    for (int j = 0; j < kBlocks; ++j) {
      const PhiloxBlock block = rng.block(first + static_cast<std::uint64_t>(j));
      const auto number = [](std::uint32_t word) {
        return static_cast<float>(static_cast<std::int32_t>(word >> 8)) * 0x1p-24f;
      };
      y[4 * j] = number(block.word[0]);
      y[4 * j + 1] = number(block.word[1]);
      y[4 * j + 2] = number(block.word[2]);
      y[4 * j + 3] = number(block.word[3]);
    }
  }
  GIRO_LOOP_INLINE static void one_by_one(const std::int64_t* key, const std::int64_t* index, float* y,
                                          std::int64_t n) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) y[i] = uniform_by_key(key[i], index[i]);
  }
};

// Box and Muller (1958). The first word, as a number in (0, 1], determines the radius: it is the probability of a
// radius at least as large. The second is the angle; its quarter turns and its remainder are both exact.
GIRO_LOOP_INLINE float normal_by_key(std::int64_t key, std::int64_t i) {
  const TwoWords words = two_words<2>(key, i);
  const float uniform = (static_cast<float>(static_cast<std::int32_t>(words.first >> 1)) + 0.5f) * 0x1p-31f;
  const std::uint32_t quarters = (words.second + 0x20000000u) >> 30;
  const double rest = static_cast<double>(static_cast<std::int32_t>(words.second - (quarters << 30)));
  const Angle angle{quarters, rest * (1.5707963267948966 * 0x1p-30)};
  return sqrt(-2.0f * log(uniform)) * sin_of(angle, 1);
}

}  // namespace giro::expr::math
