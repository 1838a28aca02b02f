#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "kernels/expr/expression_op.h"

namespace giro::expr {

// The layout of a whole array that is broadcast to a shape. Its axes are the shape's last ones; their sizes are the
// shape's or 1.
Layout broadcast_layout(const Shape& array, const Shape& to);

// Builds an expression, one instruction after the other.
class Builder {
 public:
  explicit Builder(const Shape& space, std::size_t reduced = 0);

  std::uint16_t read(const Tensor& memory, const Layout& layout);
  // Each element's number in the layout, as i64.
  std::uint16_t place(const Layout& layout);
  // `integer` for an integer dtype, else `number`.
  std::uint16_t constant(DType dtype, double number, std::int64_t integer);
  std::uint16_t constant(DType dtype, double number) {
    return constant(dtype, number, is_floating(dtype) ? 0 : static_cast<std::int64_t>(number));
  }
  // The value itself if it already has that dtype.
  std::uint16_t cast(std::uint16_t value, DType dtype);
  std::uint16_t apply(const ScalarFunction& function, DType result, std::span<const std::uint16_t> operands);
  std::uint16_t reduce(Combiner combiner, DType result, std::uint16_t value);
  void write(std::uint16_t value, const Tensor& memory, const Layout& layout);

  DType dtype(std::uint16_t value) const { return expression_.code[value].dtype; }
  Expression take() && { return std::move(expression_); }

 private:
  std::uint16_t push(Instruction instruction);

  Expression expression_;
};

}  // namespace giro::expr
