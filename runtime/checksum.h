#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

namespace giro::detail {

// 64-bit XXH3 of everything added so far, however it was split.
class Checksum {
 public:
  Checksum();
  Checksum(Checksum&&) noexcept = default;
  Checksum& operator=(Checksum&&) noexcept = default;

  void add(const void* data, std::size_t bytes);
  // As 16 hexadecimal digits.
  std::string digits() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// The digits of texts, one after the other.
std::string digits_of(std::initializer_list<std::string_view> texts);

}  // namespace giro::detail
