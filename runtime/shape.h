#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace giro {

// The sizes of a tensor's axes, outermost first; {} is a scalar. Rank is at most kMaxRank, sizes are not negative, and
// the element count fits in 63 bits: else Error(invalid_argument).
class Shape {
 public:
  static constexpr std::size_t kMaxRank = 6;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> sizes);
  explicit Shape(std::span<const std::int64_t> sizes);

  std::size_t rank() const noexcept { return rank_; }
  // The size of one axis; a negative axis counts from the end. Error(invalid_argument) if there is none.
  std::int64_t operator[](int axis) const;
  // The number of elements; 1 for a scalar.
  std::int64_t count() const noexcept { return count_; }

  const std::int64_t* begin() const noexcept { return sizes_.data(); }
  const std::int64_t* end() const noexcept { return sizes_.data() + rank_; }

  // The same shape without its first axis, or with `size` in front. drop_front of a scalar is an error.
  Shape drop_front() const;
  Shape with_front(std::int64_t size) const;

  friend bool operator==(const Shape& a, const Shape& b) noexcept = default;

 private:
  std::array<std::int64_t, kMaxRank> sizes_{};
  std::size_t rank_ = 0;
  std::int64_t count_ = 1;
};

// "(32, 28, 28, 1)", as NumPy writes it.
std::string to_string(const Shape& shape);

}  // namespace giro
