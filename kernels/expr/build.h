#pragma once

#include <cstdint>
#include <utility>

#include "kernels/expr/expression_op.h"

namespace giro::expr {

// The layout of a whole array that is broadcast to a shape. Its axes are the shape's last ones; their sizes are the
// shape's or 1.
Layout broadcast_layout(const Shape& array, const Shape& to);

class Term;

// Builds an expression, one instruction after the other, of Terms (term.h).
class Builder {
 public:
  explicit Builder(const Shape& space, std::size_t reduced = 0);

  Term read(const Tensor& memory, const Layout& layout);
  // Each element's number in the layout, as i64.
  Term place(const Layout& layout);
  // `integer` for an integer dtype, else `number`.
  Term constant(DType dtype, double number, std::int64_t integer);
  Term constant(DType dtype, double number);

  DType dtype(std::uint16_t value) const { return expression_.code[value].dtype; }
  Expression take() && { return std::move(expression_); }

 private:
  friend class Term;
  Term push(const Instruction& instruction);

  Expression expression_;
};

}  // namespace giro::expr
