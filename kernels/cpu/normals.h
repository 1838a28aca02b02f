#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include <giro/runtime/rng.h>

namespace giro::cpu {

// A standard normal from two words of bits (Box and Muller, 1958).
double standard_normal(std::uint32_t a, std::uint32_t b);

// Sets values[i] to the f32 nearest to scale * standard_normal of the first two words of block i, bit for bit but ten
// times as fast. Where the normal's magnitude exceeds `limit`, or rounding decides whether it does, it is exact(i).
void draw_normals(std::span<float> values, const Rng& rng, double scale, double limit,
                  const std::function<double(std::uint64_t)>& exact);

}  // namespace giro::cpu
