#pragma once

#include <cstdint>
#include <type_traits>

#include <giro/runtime/host_device.h>

#include "runtime/dtype_dispatch.h"

namespace giro::host_device {

// The type in which sums of T are computed and stored. Integers wrap.
template <class T>
using SumOf = std::conditional_t<sizeof(T) == 2, float, std::conditional_t<std::is_integral_v<T>, std::uint64_t, T>>;

// Which rows are added to which sums: row source_row(i) to sum key(i), or to none if the key is negative. Equal keys
// are adjacent.
template <class Index>
struct Scattered {
  const Index* indices;
  const std::int64_t* order;  // null: the rows' own order
  std::int64_t sums;

  GIRO_HOST_DEVICE std::int64_t source_row(std::int64_t i) const { return order == nullptr ? i : order[i]; }
  GIRO_HOST_DEVICE std::int64_t key(std::int64_t i) const {
    const auto index = static_cast<std::int64_t>(indices[source_row(i)]);
    return index < sums ? index : -1;
  }
};

// Calls f(Type<T>{}) for the type of the updates.
template <class F>
void with_updates(DType dtype, F&& f) {
  dtype == DType::i64 ? f(Type<std::int64_t>{}) : with_floating(dtype, f);
}

}  // namespace giro::host_device
