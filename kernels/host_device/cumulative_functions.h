#pragma once

#include <cstdint>
#include <type_traits>

#include <giro/kernels/cumulative.h>
#include <giro/runtime/float16.h>
#include <giro/runtime/host_device.h>

#include "kernels/host_device/dtype_dispatch.h"

namespace giro::host_device {

// The type in which sums and products of T are computed.
template <class T>
using Wide = std::conditional_t<std::is_integral_v<T>, std::uint64_t, double>;

template <class T>
GIRO_HOST_DEVICE Wide<T> widened(T x) {
  if constexpr (sizeof(T) == 2) {
    return static_cast<double>(static_cast<float>(x));
  } else {
    return static_cast<Wide<T>>(x);
  }
}

template <class T>
GIRO_HOST_DEVICE T narrowed(Wide<T> x) {
  if constexpr (sizeof(T) == 2) {
    return T(static_cast<float>(x));
  } else {
    return static_cast<T>(x);
  }
}

struct Plus {
  static constexpr int kNeutral = 0;
  template <class W>
  GIRO_HOST_DEVICE W operator()(W a, W b) const {
    return a + b;
  }
};
struct Times {
  static constexpr int kNeutral = 1;
  template <class W>
  GIRO_HOST_DEVICE W operator()(W a, W b) const {
    return a * b;
  }
};

// Calls f(Type<T>{}, Plus{}) or f(Type<T>{}, Times{}).
template <class F>
void with_cumulative(DType dtype, Cumulative of, F&& f) {
  const auto with = [&]<class T>(Type<T> type) { of == Cumulative::sum ? f(type, Plus{}) : f(type, Times{}); };
  is_floating(dtype) ? with_floating(dtype, with) : with_integer(dtype, with);
}

}  // namespace giro::host_device
