#pragma once

#include <cstdint>
#include <optional>

#include <giro/runtime/tensor.h>

namespace giro::detail {

// Calls f(elements) with a typed pointer to the elements of a host tensor; bool elements are std::uint8_t.
template <class F>
auto with_elements(const Tensor& tensor, F&& f) {
  switch (tensor.dtype()) {
    case DType::f32:
      return f(tensor.data<float>());
    case DType::bf16:
      return f(tensor.data<BFloat16>());
    case DType::f16:
      return f(tensor.data<Float16>());
    case DType::f64:
      return f(tensor.data<double>());
    case DType::i32:
      return f(tensor.data<std::int32_t>());
    case DType::i64:
      return f(tensor.data<std::int64_t>());
    case DType::u8:
    case DType::boolean:
      break;
  }
  return f(static_cast<std::uint8_t*>(tensor.raw()));
}

// Values of one floating dtype stored as another. All tensors are on the host.
constexpr bool can_convert(DType from, DType to) { return is_floating(from) && is_floating(to); }

// `to` must have as many elements as `from`. Rounds to nearest even, f64 to f32 first; NaN stays NaN.
void convert(const Tensor& to, const Tensor& from);
// The first finite value that `dtype` would make infinite.
std::optional<double> out_of_range(const Tensor& values, DType dtype);

}  // namespace giro::detail
