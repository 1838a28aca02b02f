#pragma once

#include <cmath>
#include <cstdint>

#include <giro/kernels/activation.h>
#include <giro/runtime/host_device.h>
#include <giro/runtime/tensor.h>

#include "kernels/functors/storage.h"

namespace giro::functors {

// Each activation as f(x), and the gradient of x given dy and x_or_y (see needs_input).
struct Identity {
  GIRO_HOST_DEVICE static float value(float x) { return x; }
  GIRO_HOST_DEVICE static float gradient(float dy, float) { return dy; }
};

struct Relu {
  // Not x > 0 ? x : 0, which would turn a NaN into a zero.
  GIRO_HOST_DEVICE static float value(float x) { return x < 0.0f ? 0.0f : x; }
  // Not a product, which would turn an infinite dy into a NaN where the unit is closed.
  GIRO_HOST_DEVICE static float gradient(float dy, float y) { return y > 0.0f ? dy : 0.0f; }
};

struct Gelu {
  static constexpr float kA = 0.7978845608028654f;  // sqrt(2 / pi)
  static constexpr float kB = 0.044715f;
  GIRO_HOST_DEVICE static float value(float x) { return 0.5f * x * (1.0f + tanhf(kA * (x + kB * x * x * x))); }
  GIRO_HOST_DEVICE static float gradient(float dy, float x) {
    const float t = tanhf(kA * (x + kB * x * x * x));
    return dy * (0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * kA * (1.0f + 3.0f * kB * x * x));
  }
};

struct Tanh {
  GIRO_HOST_DEVICE static float value(float x) { return tanhf(x); }
  GIRO_HOST_DEVICE static float gradient(float dy, float y) { return dy * (1.0f - y * y); }
};

struct Sigmoid {
  GIRO_HOST_DEVICE static float value(float x) { return 1.0f / (1.0f + expf(-x)); }
  GIRO_HOST_DEVICE static float gradient(float dy, float y) { return dy * (y * (1.0f - y)); }
};

template <class F, class T>
struct Activate {
  T* y;
  const T* x;
  GIRO_HOST_DEVICE void operator()(std::int64_t i) const { y[i] = T(F::value(static_cast<float>(x[i]))); }
};

template <class F, class T>
struct ActivateBackward {
  T* dx;
  const T *dy, *x_or_y;
  GIRO_HOST_DEVICE void operator()(std::int64_t i) const {
    dx[i] = T(F::gradient(static_cast<float>(dy[i]), static_cast<float>(x_or_y[i])));
  }
};

template <class G>
void with_activation(Activation f, G&& g) {
  switch (f) {
    case Activation::none:
      return g(Identity{});
    case Activation::relu:
      return g(Relu{});
    case Activation::gelu:
      return g(Gelu{});
    case Activation::tanh:
      return g(Tanh{});
    case Activation::sigmoid:
      return g(Sigmoid{});
  }
}

template <class ForEach>
void activation(const ForEach& for_each, const Tensor& y, const Tensor& x, Activation f) {
  with_activation(f, [&]<class F>(F) {
    with_storage(y.dtype(), [&]<class T>(Type<T>) { for_each(y.count(), Activate<F, T>{y.data<T>(), x.data<T>()}); });
  });
}

template <class ForEach>
void activation_backward(const ForEach& for_each, const Tensor& dx, const Tensor& dy, const Tensor& x_or_y,
                         Activation f) {
  with_activation(f, [&]<class F>(F) {
    with_storage(dx.dtype(), [&]<class T>(Type<T>) {
      for_each(dx.count(), ActivateBackward<F, T>{dx.data<T>(), dy.data<T>(), x_or_y.data<T>()});
    });
  });
}

}  // namespace giro::functors
