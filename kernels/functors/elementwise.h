#pragma once

#include <cstdint>
#include <type_traits>

#include <giro/runtime/host_device.h>
#include <giro/runtime/tensor.h>

#include "kernels/functors/dtype_dispatch.h"

// The elementwise ops, once for both backends: `for_each(n, functor)` queues functor(i) for every i in [0, n).
namespace giro::functors {

// Arithmetic on T happens in its compute type; storing rounds once.
template <class T>
using Compute = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T, class U>
GIRO_HOST_DEVICE T convert(U value) {
  if constexpr (std::is_same_v<T, bool>) {
    return static_cast<Compute<U>>(value) != 0;
  } else if constexpr (std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>) {
    return T(static_cast<float>(value));
  } else if constexpr (std::is_same_v<U, BFloat16> || std::is_same_v<U, Float16>) {
    return static_cast<T>(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

template <class T>
struct Add {
  T* out;
  const T *a, *b;
  GIRO_HOST_DEVICE void operator()(std::int64_t i) const {
    out[i] = T(static_cast<Compute<T>>(a[i]) + static_cast<Compute<T>>(b[i]));
  }
};

template <class T>
struct Multiply {
  T* out;
  const T *a, *b;
  GIRO_HOST_DEVICE void operator()(std::int64_t i) const {
    out[i] = T(static_cast<Compute<T>>(a[i]) * static_cast<Compute<T>>(b[i]));
  }
};

template <class T, class U>
struct Scale {
  using C = std::conditional_t<std::is_same_v<T, double> || std::is_same_v<U, double>, double, float>;
  T* out;
  const U* a;
  C factor;
  GIRO_HOST_DEVICE void operator()(std::int64_t i) const { out[i] = convert<T>(factor * convert<C>(a[i])); }
};

template <class T, class U>
struct Cast {
  T* out;
  const U* a;
  GIRO_HOST_DEVICE void operator()(std::int64_t i) const { out[i] = convert<T>(a[i]); }
};

template <class T>
struct Fill {
  T* out;
  T value;
  GIRO_HOST_DEVICE void operator()(std::int64_t i) const { out[i] = value; }
};

struct ScaleRows {
  float* out;
  const float *a, *factors;
  std::int64_t row_size;
  GIRO_HOST_DEVICE void operator()(std::int64_t i) const { out[i] = a[i] * factors[i / row_size]; }
};

struct Broadcast {
  float* out;
  const float* scalar;
  float factor;
  GIRO_HOST_DEVICE void operator()(std::int64_t i) const { out[i] = factor * scalar[0]; }
};

struct Increment {
  std::int64_t* counter;
  std::int64_t amount;
  GIRO_HOST_DEVICE void operator()(std::int64_t) const { counter[0] += amount; }
};

template <class ForEach>
void add(const ForEach& for_each, const Tensor& out, const Tensor& a, const Tensor& b) {
  with_floating(out.dtype(), [&]<class T>(Type<T>) {
    for_each(out.count(), Add<T>{out.data<T>(), a.data<T>(), b.data<T>()});
  });
}

template <class ForEach>
void multiply(const ForEach& for_each, const Tensor& out, const Tensor& a, const Tensor& b) {
  with_floating(out.dtype(), [&]<class T>(Type<T>) {
    for_each(out.count(), Multiply<T>{out.data<T>(), a.data<T>(), b.data<T>()});
  });
}

template <class ForEach>
void scale(const ForEach& for_each, const Tensor& out, const Tensor& a, double factor) {
  with_floating(out.dtype(), [&]<class T>(Type<T>) {
    with_any(a.dtype(), [&]<class U>(Type<U>) {
      using Functor = Scale<T, U>;
      for_each(out.count(), Functor{out.data<T>(), a.data<U>(), static_cast<typename Functor::C>(factor)});
    });
  });
}

template <class ForEach>
void cast(const ForEach& for_each, const Tensor& out, const Tensor& a) {
  with_any(out.dtype(), [&]<class T>(Type<T>) {
    with_any(a.dtype(), [&]<class U>(Type<U>) { for_each(out.count(), Cast<T, U>{out.data<T>(), a.data<U>()}); });
  });
}

template <class ForEach>
void fill(const ForEach& for_each, const Tensor& out, double value) {
  with_any(out.dtype(), [&]<class T>(Type<T>) { for_each(out.count(), Fill<T>{out.data<T>(), convert<T>(value)}); });
}

template <class ForEach>
void scale_rows(const ForEach& for_each, const Tensor& out, const Tensor& a, const Tensor& factors) {
  const std::int64_t rows = factors.count();
  for_each(out.count(),
           ScaleRows{out.data<float>(), a.data<float>(), factors.data<float>(), rows > 0 ? out.count() / rows : 1});
}

template <class ForEach>
void broadcast(const ForEach& for_each, const Tensor& out, const Tensor& scalar, double factor) {
  for_each(out.count(), Broadcast{out.data<float>(), scalar.data<float>(), static_cast<float>(factor)});
}

template <class ForEach>
void increment(const ForEach& for_each, const Tensor& counter, std::int64_t amount) {
  for_each(1, Increment{counter.data<std::int64_t>(), amount});
}

}  // namespace giro::functors
