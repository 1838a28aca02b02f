#include "kernels/pointwise/arguments.h"

#include <fmt/format.h>

#include <algorithm>

#include <giro/runtime/error.h>

namespace giro::pointwise {

void expect_value(const char* op, const nn::Operand& x) {
  if (x.is_number) {
    throw Error(ErrorCode::invalid_argument, fmt::format("{}: found the number {}, expected a value", op, x.number));
  }
}

std::vector<std::size_t> checked_axes(const char* op, const Shape& shape, const std::vector<int>& axes) {
  const int rank = static_cast<int>(shape.rank());
  std::vector<std::size_t> result;
  for (const int axis : axes) {
    const int from_front = axis < 0 ? axis + rank : axis;
    if (from_front < 0 || from_front >= rank) {
      throw Error(ErrorCode::invalid_argument, fmt::format("{}: axis {} of {}, expected one from {} to {}", op, axis,
                                                           to_string(shape), -rank, rank - 1));
    }
    if (std::find(result.begin(), result.end(), static_cast<std::size_t>(from_front)) != result.end()) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}: axis {} of {} is named twice", op, axis, to_string(shape)));
    }
    result.push_back(static_cast<std::size_t>(from_front));
  }
  return result;
}

}  // namespace giro::pointwise
