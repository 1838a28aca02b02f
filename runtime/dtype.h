#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include <giro/runtime/float16.h>

namespace giro {

// Element types of tensors. `boolean` is one byte, 0 or 1.
enum class DType : std::uint8_t { f32, bf16, f16, f64, i32, i64, u8, boolean };

namespace detail {
// In the order of DType.
constexpr auto kDTypeCount = static_cast<std::size_t>(DType::boolean) + 1;
inline constexpr std::size_t kDTypeSizes[kDTypeCount] = {4, 2, 2, 8, 4, 8, 1, 1};
inline constexpr std::string_view kDTypeNames[kDTypeCount] = {"f32", "bf16", "f16", "f64", "i32", "i64", "u8", "bool"};
static_assert(kDTypeSizes[kDTypeCount - 1] != 0 && !kDTypeNames[kDTypeCount - 1].empty());
}  // namespace detail

// 0 for no DType.
constexpr std::size_t size_of(DType dtype) {
  const auto i = static_cast<std::size_t>(dtype);
  return i < detail::kDTypeCount ? detail::kDTypeSizes[i] : 0;
}

constexpr bool is_floating(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f64 || dtype == DType::bf16 || dtype == DType::f16;
}

constexpr bool is_16_bit(DType dtype) { return dtype == DType::bf16 || dtype == DType::f16; }

// "?" for no DType.
constexpr std::string_view name_of(DType dtype) {
  const auto i = static_cast<std::size_t>(dtype);
  return i < detail::kDTypeCount ? detail::kDTypeNames[i] : "?";
}

// The DType that stores a C++ type.
template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> : std::integral_constant<DType, DType::f32> {};
template <>
struct DTypeOf<BFloat16> : std::integral_constant<DType, DType::bf16> {};
template <>
struct DTypeOf<Float16> : std::integral_constant<DType, DType::f16> {};
template <>
struct DTypeOf<double> : std::integral_constant<DType, DType::f64> {};
template <>
struct DTypeOf<std::int32_t> : std::integral_constant<DType, DType::i32> {};
template <>
struct DTypeOf<std::int64_t> : std::integral_constant<DType, DType::i64> {};
template <>
struct DTypeOf<std::uint8_t> : std::integral_constant<DType, DType::u8> {};
template <>
struct DTypeOf<bool> : std::integral_constant<DType, DType::boolean> {};
template <class T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

}  // namespace giro
