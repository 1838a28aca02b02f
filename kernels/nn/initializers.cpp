#include <giro/kernels/nn/initializers.h>

#include <cmath>
#include <numbers>

namespace giro::nn {
namespace {

// A standard normal from two words of bits (Box and Muller, 1958).
double standard_normal(std::uint32_t a, std::uint32_t b) {
  const double u = (a + 1.0) / 4294967296.0;  // in (0, 1]
  const double v = b / 4294967296.0;
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

// Element i draws until it lands within two standard deviations. Each element has its own counter range.
double truncated_normal(const Rng& rng, std::uint64_t element) {
  for (std::uint64_t attempt = 0;; ++attempt) {
    const PhiloxBlock block = Rng{rng.seed, rng.purpose, rng.stream + (attempt << 32)}.block(element);
    for (const int word : {0, 2}) {
      const double z = standard_normal(block.word[word], block.word[word + 1]);
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
  return drawn([variance](std::uint64_t i, const Fans& fans, const Rng& rng) {
    return std::sqrt(variance(fans)) / kTruncatedStddev * truncated_normal(rng, i);
  });
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
  return drawn([stddev](std::uint64_t i, const Fans&, const Rng& rng) {
    const PhiloxBlock block = rng.block(i);
    return stddev * standard_normal(block.word[0], block.word[1]);
  });
}
Initializer lecun_normal() { return scaled_normal(lecun); }
Initializer lecun_uniform() { return scaled_uniform(lecun); }
Initializer he_normal() { return scaled_normal(he); }
Initializer he_uniform() { return scaled_uniform(he); }
Initializer glorot_normal() { return scaled_normal(glorot); }
Initializer glorot_uniform() { return scaled_uniform(glorot); }

}  // namespace giro::nn
