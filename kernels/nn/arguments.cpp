#include "kernels/nn/arguments.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/throw_error.h"

namespace giro::nn {
namespace {

// The place of a dtype in the order of promotion.
int width(DType dtype) {
  constexpr int kWidths[] = {5, 4, 4, 6, 2, 3, 1, 0};  // in the order of DType
  return kWidths[static_cast<std::size_t>(dtype)];
}

}  // namespace

DType promoted(DType a, DType b) {
  if (a == b) return a;
  if (is_16_bit(a) && is_16_bit(b)) return DType::f32;
  return width(a) > width(b) ? a : b;
}

std::vector<Var> values_of(const std::vector<Operand>& operands) {
  std::vector<Var> values;
  for (const Operand& operand : operands) {
    if (!operand.is_number) values.push_back(operand.var);
  }
  return values;
}

void expect_value(const char* op, const Operand& x) {
  if (x.is_number) throw_invalid("{}: found the number {}, expected a value", op, x.number);
}

void expect_fits(const char* op, double number, DType dtype) {
  const auto check = [&]<class T>(T lowest, T highest) {
    if (number >= static_cast<double>(lowest) && number <= static_cast<double>(highest)) return;
    throw_invalid("{}: the number {} for {}, expected one from {} to {}", op, number, name_of(dtype), lowest, highest);
  };
  if (dtype == DType::u8) check(0, 255);
  if (dtype == DType::i32) check(INT32_MIN, INT32_MAX);
  if (dtype == DType::i64 && !(number >= -0x1p63 && number < 0x1p63)) check(INT64_MIN, INT64_MAX);
}

void expect_scalar(const char* op, const char* what, const Operand& x) {
  if (x.is_number ? x.is_fraction : is_floating(x.var.dtype()) || x.var.dtype() == DType::boolean) {
    throw_error(x.is_number ? ErrorCode::invalid_argument : ErrorCode::dtype_mismatch,
                "{}: the {} is {}, expected an integer", op, what,
                x.is_number ? fmt::to_string(x.number) : name_of(x.var.dtype()));
  }
  if (!x.is_number && x.var.shape().rank() != 0) {
    throw_shape("{}: the {} is {}, expected a scalar", op, what, to_string(x.var.value()));
  }
}

void expect_key(const char* op, const Operand& key) {
  expect_scalar(op, "key", key);
  if (key.is_number || key.var.dtype() == DType::i64) return;
  throw_error(ErrorCode::dtype_mismatch, "{}: the key is {}, expected i64", op, name_of(key.var.dtype()));
}

void expect_broadcasts(const char* op, const Shape& from, const Shape& to) {
  bool fits = from.rank() <= to.rank();
  for (std::size_t i = 0; fits && i < from.rank(); ++i) {
    fits = from.begin()[i] == 1 || from.begin()[i] == to.begin()[to.rank() - from.rank() + i];
  }
  if (fits) return;
  throw_shape("{}: found {}, which does not broadcast to {}", op, to_string(from), to_string(to));
}

std::vector<std::size_t> checked_axes(const char* op, const Shape& shape, const std::vector<int>& axes) {
  const int rank = static_cast<int>(shape.rank());
  std::vector<std::size_t> result;
  for (const int axis : axes) {
    if (rank == 0) throw_invalid("{}: axis {} of a scalar, which has no axes", op, axis);
    const int from_front = axis < 0 ? axis + rank : axis;
    if (from_front < 0 || from_front >= rank) {
      throw_invalid("{}: axis {} of {}, expected one from {} to {}", op, axis, to_string(shape), -rank, rank - 1);
    }
    if (std::find(result.begin(), result.end(), static_cast<std::size_t>(from_front)) != result.end()) {
      throw_invalid("{}: axis {} of {} appears twice", op, axis, to_string(shape));
    }
    result.push_back(static_cast<std::size_t>(from_front));
  }
  return result;
}

}  // namespace giro::nn
