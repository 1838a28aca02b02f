#include "runtime/elements.h"

#include <cmath>
#include <limits>
#include <type_traits>

namespace giro::detail {
namespace {

// Calls f with a value of the C++ type that stores a floating dtype.
template <class F>
auto with_float(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f64:
      return f(double());
    case DType::bf16:
      return f(BFloat16());
    case DType::f16:
      return f(Float16());
    default:
      return f(float());
  }
}

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
  with_float(from.dtype(), [&](auto source) {
    with_float(to.dtype(), [&](auto target) {
      using From = decltype(source);
      using To = decltype(target);
      const From* const read = from.data<From>();
      To* const written = to.data<To>();
      for (std::int64_t i = 0; i < from.count(); ++i) written[i] = converted<To>(read[i]);
    });
  });
}

std::optional<double> out_of_range(const Tensor& values, DType dtype) {
  const auto largest = [](DType floating) { return kLargest[static_cast<std::size_t>(floating)]; };
  if (largest(values.dtype()) <= largest(dtype)) return std::nullopt;
  return with_float(values.dtype(), [&](auto source) {
    return with_float(dtype, [&](auto target) -> std::optional<double> {
      using From = decltype(source);
      using To = decltype(target);
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
