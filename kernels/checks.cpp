#include "kernels/checks.h"

#include <fmt/format.h>

#include <string>

#include "runtime/throw_error.h"

namespace giro::checks {
namespace {

[[noreturn]] void reject(ErrorCode code, std::string_view op, const Argument& argument, const std::string& expected) {
  throw_error(code, "{}: {} is {}, {}", op, argument.name, to_string(argument.tensor), expected);
}

[[noreturn]] void reject(ErrorCode code, std::string_view op, const Argument& a, const Argument& b) {
  reject(code, op, a, fmt::format("but {} is {}", b.name, to_string(b.tensor)));
}

// Rejects a tensor without memory. Optional arguments are only checked if they are given.
void is_given(std::string_view op, const Argument& argument) {
  if (!argument.tensor.is_empty()) return;
  throw_error(ErrorCode::shape_mismatch, "{}: {} is empty, expected a tensor", op, argument.name);
}

}  // namespace

void on_device(std::string_view op, std::initializer_list<Argument> arguments, const Stream& stream) {
  for (const Argument& argument : arguments) {
    if (!argument.tensor || argument.tensor.device() == stream.device()) continue;
    reject(ErrorCode::device_mismatch, op, argument, fmt::format("the stream is on {}", to_string(stream.device())));
  }
}

void has_dtype(std::string_view op, const Argument& argument, DType dtype) {
  is_given(op, argument);
  if (argument.tensor.dtype() == dtype) return;
  reject(ErrorCode::dtype_mismatch, op, argument, fmt::format("expected dtype {}", name_of(dtype)));
}

void is_floating(std::string_view op, const Argument& argument) {
  if (giro::is_floating(argument.tensor.dtype())) return;
  reject(ErrorCode::dtype_mismatch, op, argument, "expected a floating dtype");
}

void is_storage(std::string_view op, const Argument& argument) {
  is_given(op, argument);
  const DType dtype = argument.tensor.dtype();
  if (dtype == DType::f32 || is_16_bit(dtype)) return;
  reject(ErrorCode::dtype_mismatch, op, argument, "expected dtype f32, bf16 or f16");
}

void is_f32_or_as(std::string_view op, const Argument& argument, const Argument& like) {
  if (argument.tensor.dtype() != DType::f32) same_dtype(op, argument, like);
}

void is_integer(std::string_view op, const Argument& argument) {
  const DType dtype = argument.tensor.dtype();
  if (dtype == DType::u8 || dtype == DType::i32 || dtype == DType::i64) return;
  reject(ErrorCode::dtype_mismatch, op, argument, "expected dtype u8, i32 or i64");
}

void same_dtype(std::string_view op, const Argument& a, const Argument& b) {
  if (a.tensor.dtype() != b.tensor.dtype()) reject(ErrorCode::dtype_mismatch, op, a, b);
}

void has_shape(std::string_view op, const Argument& argument, const Shape& shape) {
  is_given(op, argument);
  if (argument.tensor.shape() == shape) return;
  reject(ErrorCode::shape_mismatch, op, argument, fmt::format("expected shape {}", to_string(shape)));
}

void has_rank(std::string_view op, const Argument& argument, std::size_t rank) {
  if (argument.tensor.shape().rank() == rank) return;
  reject(ErrorCode::shape_mismatch, op, argument, fmt::format("expected {} axes", rank));
}

void same_shape(std::string_view op, const Argument& a, const Argument& b) {
  is_given(op, a);
  is_given(op, b);
  if (a.tensor.shape() != b.tensor.shape()) reject(ErrorCode::shape_mismatch, op, a, b);
}

void has_dtype_and_shape(std::string_view op, const Argument& argument, DType dtype, const Shape& shape) {
  has_dtype(op, argument, dtype);
  has_shape(op, argument, shape);
}

void fits_if_given(std::string_view op, const Argument& argument, const Argument& like, const Shape& shape) {
  if (!argument.tensor) return;
  is_f32_or_as(op, argument, like);
  has_shape(op, argument, shape);
}

}  // namespace giro::checks
