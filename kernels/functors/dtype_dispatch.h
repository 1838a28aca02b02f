#pragma once

#include <string>

#include <giro/runtime/dtype.h>
#include <giro/runtime/error.h>

namespace giro::functors {

template <class T>
struct Type {
  using type = T;
};

// Calls f(Type<T>{}) for the C++ type T that stores `dtype`.
template <class F>
void with_floating(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32:
      return f(Type<float>{});
    case DType::f64:
      return f(Type<double>{});
    case DType::bf16:
      return f(Type<BFloat16>{});
    case DType::f16:
      return f(Type<Float16>{});
    default:
      throw Error(ErrorCode::dtype_mismatch, "expected a floating dtype, found " + std::string(name_of(dtype)));
  }
}

template <class F>
void with_any(DType dtype, F&& f) {
  switch (dtype) {
    case DType::i32:
      return f(Type<std::int32_t>{});
    case DType::i64:
      return f(Type<std::int64_t>{});
    case DType::u8:
      return f(Type<std::uint8_t>{});
    case DType::boolean:
      return f(Type<bool>{});
    default:
      return with_floating(dtype, f);
  }
}

// The dtypes of labels and indices.
template <class F>
void with_integer(DType dtype, F&& f) {
  switch (dtype) {
    case DType::i32:
      return f(Type<std::int32_t>{});
    case DType::i64:
      return f(Type<std::int64_t>{});
    case DType::u8:
      return f(Type<std::uint8_t>{});
    default:
      throw Error(ErrorCode::dtype_mismatch, "expected u8, i32 or i64, found " + std::string(name_of(dtype)));
  }
}

}  // namespace giro::functors
