#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

#include <giro/distributed/communicator.h>

namespace giro::detail {

// The `own` values of all ranks, in rank order. Called by all ranks of a communicator for host memory; blocks.
template <class T>
std::vector<T> exchange(const Communicator& host, const T& own) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> all(static_cast<std::size_t>(host.size()));
  T mine = own;
  const auto bytes = static_cast<std::int64_t>(sizeof(T));
  host.all_gather(Tensor(all.data(), DType::u8, {bytes * host.size()}, Device::cpu()),
                  Tensor(&mine, DType::u8, {bytes}, Device::cpu()), Stream(Device::cpu()));
  return all;
}

}  // namespace giro::detail
