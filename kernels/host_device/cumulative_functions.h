#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include <giro/runtime/float16.h>
#include <giro/runtime/host_device.h>

#include "kernels/cumulative_op.h"
#include "runtime/dtype_dispatch.h"

namespace giro::host_device {

// The type in which sums and products of T are computed.
template <class T>
using Wide = std::conditional_t<std::is_integral_v<T>, std::uint64_t, double>;

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
struct Max {
  struct Lowest {
    GIRO_HOST_DEVICE constexpr operator double() const { return -std::numeric_limits<double>::infinity(); }
    GIRO_HOST_DEVICE constexpr operator std::uint64_t() const { return std::uint64_t{1} << 63; }
  };
  static constexpr Lowest kNeutral{};
  GIRO_HOST_DEVICE double operator()(double a, double b) const { return b > a || b != b ? b : a; }
  GIRO_HOST_DEVICE std::uint64_t operator()(std::uint64_t a, std::uint64_t b) const {
    return static_cast<std::int64_t>(a) < static_cast<std::int64_t>(b) ? b : a;
  }
};

// Calls f(Type<T>{}, function).
template <class F>
void with_cumulative(DType dtype, ops::Cumulative::Of of, F&& f) {
  const auto with = [&]<class T>(Type<T> type) {
    switch (of) {
      case ops::Cumulative::Of::sum:
        return f(type, Plus{});
      case ops::Cumulative::Of::product:
        return f(type, Times{});
      case ops::Cumulative::Of::max:
        return f(type, Max{});
    }
  };
  is_floating(dtype) ? with_floating(dtype, with) : with_integer(dtype, with);
}

}  // namespace giro::host_device
