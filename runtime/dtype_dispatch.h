#pragma once

#include <cstdint>
#include <string>

#include <giro/runtime/dtype.h>
#include <giro/runtime/error.h>

namespace giro::host_device {

template <class T>
struct Type {
  using type = T;
};

// Returns f(Type<T>{}) for the C++ type T, one of the given ones, that stores `dtype`.
template <class First, class... Rest, class F>
auto with_one_of(const char* expected, DType dtype, F&& f) {
  if (dtype == dtype_of<First>) return f(Type<First>{});
  if constexpr (sizeof...(Rest) > 0) {
    return with_one_of<Rest...>(expected, dtype, f);
  } else {
    throw Error(ErrorCode::dtype_mismatch,
                std::string("expected ") + expected + ", found " + std::string(name_of(dtype)));
  }
}

template <class F>
auto with_floating(DType dtype, F&& f) {
  return with_one_of<float, double, BFloat16, Float16>("a floating dtype", dtype, f);
}

// The dtypes of labels and indices.
template <class F>
auto with_integer(DType dtype, F&& f) {
  return with_one_of<std::int32_t, std::int64_t, std::uint8_t>("u8, i32 or i64", dtype, f);
}

template <class F>
auto with_any(DType dtype, F&& f) {
  return with_one_of<float, double, BFloat16, Float16, std::int32_t, std::int64_t, std::uint8_t, bool>("a dtype", dtype,
                                                                                                       f);
}

}  // namespace giro::host_device
