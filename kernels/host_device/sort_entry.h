#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include <giro/runtime/float16.h>
#include <giro/runtime/host_device.h>

namespace giro::host_device {

template <class T>
using Bits = std::conditional_t<
    sizeof(T) == 8, std::uint64_t,
    std::conditional_t<sizeof(T) == 4, std::uint32_t, std::conditional_t<sizeof(T) == 2, std::uint16_t, std::uint8_t>>>;

// An integer key that sorts like the values: NaN after all numbers, -0 equal to 0. No floats are compared, so flushing
// subnormals does not change their order.
template <class T>
GIRO_HOST_DEVICE Bits<T> ordered(T value) {
  constexpr Bits<T> kSign = Bits<T>(Bits<T>(1) << (8 * sizeof(T) - 1));
  Bits<T> bits;
  std::memcpy(&bits, &value, sizeof(T));
  if constexpr (std::is_unsigned_v<T>) {
    return bits;
  } else if constexpr (std::is_integral_v<T>) {
    return bits ^ kSign;
  } else {
    constexpr int kMantissa = std::is_same_v<T, double>    ? 52
                              : std::is_same_v<T, float>   ? 23
                              : std::is_same_v<T, Float16> ? 10
                                                           : 7;
    constexpr Bits<T> kInfinity = Bits<T>((Bits<T>(~Bits<T>(0)) >> (kMantissa + 1)) << kMantissa);
    const Bits<T> magnitude = bits & Bits<T>(~kSign);
    if (magnitude > kInfinity) return Bits<T>(~Bits<T>(0));
    return bits != magnitude && magnitude != 0 ? Bits<T>(~bits) : Bits<T>(magnitude | kSign);
  }
}

// The sort key: an element's ordered() key and its position in the row. No two are equal, so every algorithm gives the
// same order.
template <class Key, bool kFits = sizeof(Key) <= 4>
struct Entry {
  std::uint64_t both;

  GIRO_HOST_DEVICE Entry(Key key, std::uint32_t index) : both(std::uint64_t(key) << 32 | index) {}
  GIRO_HOST_DEVICE std::uint32_t index() const { return static_cast<std::uint32_t>(both); }
  GIRO_HOST_DEVICE bool operator<(const Entry& other) const { return both < other.both; }
};
template <class Key>
struct Entry<Key, false> {
  Key key;
  std::uint32_t at;

  GIRO_HOST_DEVICE Entry(Key key, std::uint32_t index) : key(key), at(index) {}
  GIRO_HOST_DEVICE std::uint32_t index() const { return at; }
  GIRO_HOST_DEVICE bool operator<(const Entry& other) const {
    return key < other.key || (key == other.key && at < other.at);
  }
};
template <class T>
using EntryOf = Entry<Bits<T>>;

template <class T>
GIRO_HOST_DEVICE EntryOf<T> entry(const T* row, std::int64_t index, bool descending) {
  const Bits<T> key = ordered(row[index]);
  return {descending ? Bits<T>(~key) : key, static_cast<std::uint32_t>(index)};
}

}  // namespace giro::host_device
