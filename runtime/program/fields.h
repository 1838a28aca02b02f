#pragma once

#include <concepts>
#include <cstddef>
#include <iterator>
#include <type_traits>
#include <utility>

#include "runtime/in_out.h"

namespace giro::detail {

struct AnyField {
  template <class T>
  operator T() const;
};

template <class T, std::size_t... I>
constexpr bool has_fields(std::index_sequence<I...>) {
  return requires { T{(static_cast<void>(I), AnyField())...}; };
}

// The number of fields of an aggregate.
template <class T, std::size_t kAtMost = 10>
constexpr std::size_t field_count() {
  static_assert(kAtMost > 0, "expected a struct of 1 to 10 fields");
  if constexpr (has_fields<T>(std::make_index_sequence<kAtMost>())) {
    return kAtMost;
  } else {
    return field_count<T, kAtMost - 1>();
  }
}

// Calls f(field) for each field.
template <class T, class F>
void for_each_field(T& of, F&& f) {
  constexpr std::size_t kCount = field_count<std::remove_const_t<T>>();
  const auto each = [&](auto&... field) { (f(field), ...); };
#define GIRO_CASE(COUNT, ...)      \
  if constexpr (kCount == COUNT) { \
    auto& [__VA_ARGS__] = of;      \
    each(__VA_ARGS__);             \
  }
  GIRO_CASE(1, a)
  GIRO_CASE(2, a, b)
  GIRO_CASE(3, a, b, c)
  GIRO_CASE(4, a, b, c, d)
  GIRO_CASE(5, a, b, c, d, e)
  GIRO_CASE(6, a, b, c, d, e, g)
  GIRO_CASE(7, a, b, c, d, e, g, h)
  GIRO_CASE(8, a, b, c, d, e, g, h, i)
  GIRO_CASE(9, a, b, c, d, e, g, h, i, j)
  GIRO_CASE(10, a, b, c, d, e, g, h, i, j, k)
#undef GIRO_CASE
}

// Calls f(tensor, use) for each In, Out and InOut in an op's arguments: its fields, their fields, and elements of
// vectors. Other composite types need an overload next to them. A plain Tensor does not compile.
template <class T, class F>
void for_each_tensor(T& of, const F& f) {
  using Type = std::remove_const_t<T>;
  static_assert(!std::is_same_v<Type, Tensor>, "a tensor among an op's arguments must be an In, an Out or an InOut");
  if constexpr (std::derived_from<Type, In>) {
    f(of, Use::read);
  } else if constexpr (std::derived_from<Type, Out>) {
    f(of, Use::written);
  } else if constexpr (std::derived_from<Type, InOut>) {
    f(of, Use::updated);
  } else if constexpr (requires { std::begin(of); }) {
    if constexpr (std::is_class_v<typename Type::value_type>) {
      for (auto& each : of) for_each_tensor(each, f);
    }
  } else if constexpr (std::is_class_v<Type> && std::is_aggregate_v<Type>) {
    for_each_field(of, [&](auto& field) { for_each_tensor(field, f); });
  }
}

}  // namespace giro::detail
