#include "kernels/cpu/normals.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "kernels/cpu/for_each.h"
#include "kernels/cpu/subnormals.h"
#include "kernels/expr/instruction_sets.h"
#include "kernels/expr/math.h"

namespace giro::cpu {
namespace {

using expr::math::polynomial;

constexpr std::int64_t kChunk = 512;
// A bound on the error of a normal computed here, relative to its radius. If no rounding boundary of f32 is within it,
// the result has the same bits as with the C library's functions.
constexpr double kError = 0x1p-46;

// ln x for a normal x.
GIRO_LOOP_INLINE double log_of(double x) {
  const auto [exponent, s] = expr::math::log_parts(x);
  const double z = s * s;
  const double p =
      polynomial(z, 1.0 / 21, 1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13, 1.0 / 11, 1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3);
  return 2 * (p * z * s + s) + exponent * std::numbers::ln2;
}

// The cosine of `turn` / 2^32 turns: quarter turns, and a Taylor series for the rest.
GIRO_LOOP_INLINE double cosine_of_turn(std::uint32_t turn) {
  const std::uint32_t quarters = (turn + 0x20000000u) >> 30;
  const double t = static_cast<double>(static_cast<std::int32_t>(turn - (quarters << 30))) *
                   (std::numbers::pi / 2 * 0x1p-30),
               z = t * t;
  const double of_sine = polynomial(z, -1.0 / 1307674368000, 1.0 / 6227020800, -1.0 / 39916800, 1.0 / 362880,
                                    -1.0 / 5040, 1.0 / 120, -1.0 / 6);
  const double sine = of_sine * z * t + t;
  const double cosine = polynomial(z, 1.0 / 20922789888000, -1.0 / 87178291200, 1.0 / 479001600, -1.0 / 3628800,
                                   1.0 / 40320, -1.0 / 720, 1.0 / 24, -0.5, 1.0);
  const double size = (quarters & 1) != 0 ? sine : cosine;
  return ((quarters + 1) & 2) != 0 ? -size : size;
}

// The values of a chunk's blocks from `first` on, and which of them are uncertain.
struct Chunk {
  GIRO_LOOP_INLINE static void run(float* values, std::uint8_t* uncertain, Rng rng, std::uint64_t first,
                                   std::int64_t count, double scale, double limit) {
    std::uint32_t a[kChunk], b[kChunk];
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) {
      const PhiloxBlock block = rng.block(first + static_cast<std::uint64_t>(i));
      a[i] = block.word[0];
      b[i] = block.word[1];
    }
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) {
      const double u = (static_cast<double>(static_cast<std::int32_t>(a[i] ^ 0x80000000u)) + (0x1p31 + 1)) * 0x1p-32;
      const double radius = __builtin_sqrt(-2 * log_of(u)), normal = radius * cosine_of_turn(b[i]);
      const double error = radius * kError, value = scale * normal, of_value = std::abs(scale) * error;
      const float least = static_cast<float>(value - of_value), most = static_cast<float>(value + of_value);
      values[i] = most;
      // A subnormal is flushed here, and a zero has lost its sign.
      const bool is_normal = std::abs(most) > std::numeric_limits<float>::min();
      uncertain[i] = !(is_normal && least == most && error > 0 && std::abs(normal) + error <= limit);
    }
  }
};

}  // namespace

double standard_normal(std::uint32_t a, std::uint32_t b) {
  const double u = (a + 1.0) / 4294967296.0;  // in (0, 1]
  const double v = b / 4294967296.0;
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

void draw_normals(std::span<float> values, const Rng& rng, double scale, double limit,
                  const std::function<double(std::uint64_t)>& exact) {
  const auto count = static_cast<std::int64_t>(values.size());
  const auto run = expr::Compiled<Chunk>::all.get();
  for_each_block(count, kChunk, 16 * count, [&](std::int64_t begin, std::int64_t end) {
    std::uint8_t uncertain[kChunk];
    run(&values[begin], uncertain, rng, static_cast<std::uint64_t>(begin), end - begin, scale, limit);
    const FlushSubnormals keep(false);
    for (std::int64_t i = 0; i < end - begin; ++i) {
      if (uncertain[i] != 0) values[begin + i] = static_cast<float>(exact(static_cast<std::uint64_t>(begin + i)));
    }
  });
}

}  // namespace giro::cpu
