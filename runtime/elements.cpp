#include "runtime/elements.h"

#include <cmath>
#include <limits>
#include <type_traits>

namespace giro::detail {
namespace {

template <class To, class From>
To converted(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else {
    return static_cast<To>(static_cast<float>(value));
  }
}

// The largest finite values of f32, bf16, f16 and f64, in the order of DType.
constexpr double kLargest[] = {std::numeric_limits<float>::max(), 0x1.FEp127, 65504,
                               std::numeric_limits<double>::max()};

}  // namespace

void convert(const Tensor& to, const Tensor& from) {
  host_device::with_floating(from.dtype(), [&]<class From>(host_device::Type<From>) {
    host_device::with_floating(to.dtype(), [&]<class To>(host_device::Type<To>) {
      const From* const read = from.data<From>();
      To* const written = to.data<To>();
      for (std::int64_t i = 0; i < from.count(); ++i) written[i] = converted<To>(read[i]);
    });
  });
}

std::optional<double> out_of_range(const Tensor& values, DType dtype) {
  const auto largest = [](DType floating) { return kLargest[static_cast<std::size_t>(floating)]; };
  if (largest(values.dtype()) <= largest(dtype)) return std::nullopt;
  return host_device::with_floating(values.dtype(), [&]<class From>(host_device::Type<From>) {
    return host_device::with_floating(dtype, [&]<class To>(host_device::Type<To>) -> std::optional<double> {
      const From* const read = values.data<From>();
      for (std::int64_t i = 0; i < values.count(); ++i) {
        const auto value = static_cast<double>(read[i]);
        if (std::isfinite(value) && !std::isfinite(static_cast<double>(converted<To>(read[i])))) return value;
      }
      return std::nullopt;
    });
  });
}

}  // namespace giro::detail
