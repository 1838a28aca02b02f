#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <giro/runtime/tensor.h>

namespace giro::tools {

// Calls f(elements), a pointer to the elements' type, for a tensor on the host.
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

// "f32 (2, 3)"
std::string type_of(const Tensor& tensor);
// A name from a file, which may hold anything, fit for a terminal and a line.
std::string for_terminal(std::string_view name);

}  // namespace giro::tools
