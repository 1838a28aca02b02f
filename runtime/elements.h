#pragma once

#include <cstdint>
#include <optional>

#include <giro/runtime/tensor.h>

#include "runtime/dtype_dispatch.h"

namespace giro::detail {

// Returns f(elements) for a typed pointer to the elements of a host tensor; bool elements are std::uint8_t.
template <class F>
auto with_elements(const Tensor& tensor, F&& f) {
  if (tensor.dtype() == DType::boolean) return f(static_cast<std::uint8_t*>(tensor.raw()));
  return host_device::with_one_of<float, BFloat16, Float16, double, std::int32_t, std::int64_t, std::uint8_t>(
      "a dtype", tensor.dtype(), [&]<class T>(host_device::Type<T>) { return f(tensor.data<T>()); });
}

// Values of one floating dtype stored as another. All tensors are on the host.
constexpr bool can_convert(DType from, DType to) { return is_floating(from) && is_floating(to); }

// `to` must have as many elements as `from`. Rounds to nearest even, f64 to f32 first; NaN stays NaN.
void convert(const Tensor& to, const Tensor& from);
// The first finite value that `dtype` would make infinite.
std::optional<double> out_of_range(const Tensor& values, DType dtype);

}  // namespace giro::detail
