#pragma once

#include <cmath>

#include <giro/kernels/activation.h>

namespace giro::test {

inline constexpr double kGeluScale = 0.7978845608028654;  // sqrt(2 / pi)
inline constexpr double kGeluCubic = 0.044715;

inline double activate(Activation f, double x) {
  switch (f) {
    case Activation::none:
      return x;
    case Activation::relu:
      return x < 0 ? 0 : x;
    case Activation::gelu:
      return 0.5 * x * (1 + std::tanh(kGeluScale * (x + kGeluCubic * x * x * x)));
    case Activation::tanh:
      return std::tanh(x);
    case Activation::sigmoid:
      return 1 / (1 + std::exp(-x));
  }
  return NAN;
}

// df/dx, given what activation_backward is given: x for gelu, else y.
inline double activation_slope(Activation f, double x_or_y) {
  const double x = x_or_y, y = x_or_y;
  switch (f) {
    case Activation::none:
      return 1;
    case Activation::relu:
      return y > 0 ? 1 : 0;
    case Activation::gelu: {
      const double t = std::tanh(kGeluScale * (x + kGeluCubic * x * x * x));
      return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * kGeluScale * (1 + 3 * kGeluCubic * x * x);
    }
    case Activation::tanh:
      return 1 - y * y;
    case Activation::sigmoid:
      return y * (1 - y);
  }
  return NAN;
}

inline const char* name_of(Activation f) {
  constexpr const char* kNames[] = {"none", "relu", "gelu", "tanh", "sigmoid"};
  return kNames[static_cast<int>(f)];
}

}  // namespace giro::test
