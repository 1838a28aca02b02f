#pragma once

#include <initializer_list>
#include <string_view>

#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

// Argument checks of the ops. Each throws giro::Error naming the op, the argument, what was expected and what was
// found.
namespace giro::checks {

struct Argument {
  std::string_view name;
  const Tensor& tensor;
};

void on_device(std::string_view op, std::initializer_list<Argument> arguments, const Stream& stream);
void has_dtype(std::string_view op, const Argument& argument, DType dtype);
void is_floating(std::string_view op, const Argument& argument);
// One of f32, bf16, f16, the dtypes that ops compute in f32.
void is_storage(std::string_view op, const Argument& argument);
// f32, or the dtype of `like`.
void is_f32_or_as(std::string_view op, const Argument& argument, const Argument& like);
// One of u8, i32, i64.
void is_integer(std::string_view op, const Argument& argument);
void same_dtype(std::string_view op, const Argument& a, const Argument& b);
void has_shape(std::string_view op, const Argument& argument, const Shape& shape);
void has_rank(std::string_view op, const Argument& argument, std::size_t rank);
void same_shape(std::string_view op, const Argument& a, const Argument& b);
void has_dtype_and_shape(std::string_view op, const Argument& argument, DType dtype, const Shape& shape);
// If it is given, both is_f32_or_as and has_shape.
void fits_if_given(std::string_view op, const Argument& argument, const Argument& like, const Shape& shape);

}  // namespace giro::checks
