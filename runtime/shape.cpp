#include <giro/runtime/shape.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>
#include <vector>

#include "runtime/throw_error.h"

namespace giro {

Shape::Shape(std::initializer_list<std::int64_t> sizes) : Shape(std::span(sizes.begin(), sizes.size())) {}

Shape::Shape(std::span<const std::int64_t> sizes) : rank_(sizes.size()) {
  if (rank_ > kMaxRank) throw_invalid("a shape has at most {} axes, found {}", kMaxRank, rank_);
  bool empty = false;
  for (std::size_t axis = 0; axis < rank_; ++axis) {
    const std::int64_t size = sizes[axis];
    if (size < 0) throw_invalid("axis {} of a shape has the negative size {}", axis, size);
    sizes_[axis] = size;
    empty = empty || size == 0;
    if (size > 0 && count_ > std::numeric_limits<std::int64_t>::max() / size) {
      throw_invalid("the element count of shape ({}) overflows 63 bits", fmt::join(sizes, ", "));
    }
    if (size > 0) count_ *= size;
  }
  if (empty) count_ = 0;
}

std::int64_t Shape::operator[](int axis) const {
  const int rank = static_cast<int>(rank_);
  if (axis < -rank || axis >= rank) throw_invalid("axis {} is out of range for shape {}", axis, to_string(*this));
  return sizes_[static_cast<std::size_t>(axis < 0 ? axis + rank : axis)];
}

Shape Shape::drop_front() const {
  if (rank_ == 0) throw_invalid("a scalar has no first axis to drop");
  return Shape(std::span(sizes_.data() + 1, rank_ - 1));
}

Shape Shape::with_front(std::int64_t size) const {
  std::vector<std::int64_t> sizes{size};
  sizes.insert(sizes.end(), begin(), end());
  return Shape(sizes);
}

std::string to_string(const Shape& shape) {
  return shape.rank() == 1 ? fmt::format("({},)", shape[0])
                           : fmt::format("({})", fmt::join(shape.begin(), shape.end(), ", "));
}

}  // namespace giro
