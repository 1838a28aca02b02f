#include <giro/kernels/nn/initializers.h>

#include <cmath>
#include <limits>

#include "kernels/cpu/normals.h"

namespace giro::nn {
namespace {

// Element i draws until it lands within two standard deviations. Each element has its own counter range.
double truncated_normal(const Rng& rng, std::uint64_t element) {
  for (std::uint64_t attempt = 0;; ++attempt) {
    const PhiloxBlock block = Rng{rng.seed, rng.purpose, rng.stream + (attempt << 32)}.block(element);
    for (const int word : {0, 2}) {
      const double z = cpu::standard_normal(block.word[word], block.word[word + 1]);
      if (std::abs(z) <= 2.0) return z;
    }
  }
}

// The standard deviation of a standard normal truncated at +-2.
constexpr double kTruncatedStddev = 0.87962566103423978;

template <class Draw>
Initializer drawn(Draw draw) {
  return [draw](std::int64_t count, const Fans& fans, const Rng& rng) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(draw(i, fans, rng));
    return values;
  };
}

using Variance = double (*)(const Fans&);
double lecun(const Fans& fans) { return 1.0 / static_cast<double>(fans.in); }
double he(const Fans& fans) { return 2.0 / static_cast<double>(fans.in); }
double glorot(const Fans& fans) { return 2.0 / static_cast<double>(fans.in + fans.out); }

Initializer scaled_normal(Variance variance) {
  return [variance](std::int64_t count, const Fans& fans, const Rng& rng) {
    std::vector<float> values(static_cast<std::size_t>(count));
    const double scale = std::sqrt(variance(fans)) / kTruncatedStddev;
    cpu::draw_normals(values, rng, scale, 2, [&](std::uint64_t i) { return scale * truncated_normal(rng, i); });
    return values;
  };
}

Initializer scaled_uniform(Variance variance) {
  return drawn([variance](std::uint64_t i, const Fans& fans, const Rng& rng) {
    return std::sqrt(3.0 * variance(fans)) * (2.0 * static_cast<double>(rng.uniform(i)) - 1.0);
  });
}

Initializer constant(double value) {
  return drawn([value](std::uint64_t, const Fans&, const Rng&) { return value; });
}

}  // namespace

Initializer zeros() { return constant(0); }
Initializer ones() { return constant(1); }
Initializer normal(double stddev) {
  return [stddev](std::int64_t count, const Fans&, const Rng& rng) {
    std::vector<float> values(static_cast<std::size_t>(count));
    cpu::draw_normals(values, rng, stddev, std::numeric_limits<double>::infinity(), [&](std::uint64_t i) {
      const PhiloxBlock block = rng.block(i);
      return stddev * cpu::standard_normal(block.word[0], block.word[1]);
    });
    return values;
  };
}
Initializer lecun_normal() { return scaled_normal(lecun); }
Initializer lecun_uniform() { return scaled_uniform(lecun); }
Initializer he_normal() { return scaled_normal(he); }
Initializer he_uniform() { return scaled_uniform(he); }
Initializer glorot_normal() { return scaled_normal(glorot); }
Initializer glorot_uniform() { return scaled_uniform(glorot); }

}  // namespace giro::nn
