#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <giro/runtime/rng.h>

namespace giro::nn {

// How many inputs one output of a layer sums over, and how many outputs one input reaches.
struct Fans {
  std::int64_t in = 1;
  std::int64_t out = 1;
};

// The initial values of a parameter of `count` elements. Drawn on the host, so every device starts from the same bits.
using Initializer = std::function<std::vector<float>(std::int64_t count, const Fans& fans, const Rng& rng)>;

Initializer zeros();
Initializer ones();
Initializer normal(double stddev);
// Variance 1/fan_in, 2/fan_in and 2/(fan_in + fan_out) (LeCun 1998; He 2015; Glorot 2010), as in jax.nn.initializers.
// The normal ones are truncated at two standard deviations and scaled up to keep the variance.
Initializer lecun_normal();
Initializer lecun_uniform();
Initializer he_normal();
Initializer he_uniform();
Initializer glorot_normal();
Initializer glorot_uniform();

}  // namespace giro::nn
