#pragma once

#include <cstddef>
#include <memory>
#include <string>

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

}  // namespace giro::detail
