#pragma once

#include <cstdint>

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

}  // namespace giro::detail
