#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <utility>

#include "kernels/expr/expression_op.h"
#include "kernels/expr/table.h"

namespace giro::expr {

// The layout of a whole array that is broadcast to a shape. Its axes are the shape's last ones; their sizes are the
// shape's or 1.
Layout broadcast_layout(const Shape& array, const Shape& to);

class Term;

// Builds an expression, one instruction after the other, of Terms.
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

// A value of an expression that is being built, or a number to combine with one, with the usual operators. All operands
// have one dtype, which numbers adopt.
class Term {
 public:
  template <std::floating_point T>
  Term(T number) : number_(static_cast<double>(number)) {
    if (std::abs(number_) < 0x1p63) integer_ = static_cast<std::int64_t>(number);
  }
  template <std::integral T>
  Term(T number) : number_(static_cast<double>(number)), integer_(static_cast<std::int64_t>(number)) {}
  Term(Builder& builder, std::uint16_t value) : builder_(&builder), value_(value) {}

  // Of a value, not a number: what builds it, and its number there.
  Builder& builder() const { return *builder_; }
  std::uint16_t value() const { return value_; }

  static Term apply(const ScalarFunction& function, std::span<const Term> operands);
  static Term apply(const ScalarFunction& function, std::initializer_list<Term> operands) {
    return apply(function, std::span(operands));
  }

  Term reduce(Combiner combiner, DType dtype) const;
  Term sum() const { return reduce(Combiner::sum, builder_->dtype(value_)); }
  // The value itself if it already has that dtype.
  Term cast(DType dtype) const;
  void write(const Tensor& memory, const Layout& layout) const;

 private:
  // Its number in the builder's expression, where a number becomes a constant.
  std::uint16_t in(Builder& builder, DType dtype) const;

  Builder* builder_ = nullptr;
  std::uint16_t value_ = 0;
  double number_ = 0;
  std::int64_t integer_ = 0;  // exact, for an integer
};

inline Term operator+(const Term& a, const Term& b) { return Term::apply(functions::add, {a, b}); }
inline Term operator-(const Term& a, const Term& b) { return Term::apply(functions::subtract, {a, b}); }
inline Term operator*(const Term& a, const Term& b) { return Term::apply(functions::multiply, {a, b}); }
inline Term operator/(const Term& a, const Term& b) { return Term::apply(functions::divide, {a, b}); }
inline Term operator<(const Term& a, const Term& b) { return Term::apply(functions::less, {a, b}); }
inline Term operator==(const Term& a, const Term& b) { return Term::apply(functions::equal, {a, b}); }
inline Term square(const Term& a) { return Term::apply(functions::square, {a}); }
inline Term sqrt(const Term& a) { return Term::apply(functions::sqrt, {a}); }
inline Term relu(const Term& a) { return Term::apply(functions::relu, {a}); }
inline Term exp(const Term& a) { return Term::apply(functions::exp, {a}); }
inline Term log(const Term& a) { return Term::apply(functions::log, {a}); }
inline Term minimum(const Term& a, const Term& b) { return Term::apply(functions::minimum, {a, b}); }
inline Term maximum(const Term& a, const Term& b) { return Term::apply(functions::maximum, {a, b}); }
inline Term is_nan(const Term& a) { return Term::apply(functions::is_nan, {a}); }
inline Term is_finite(const Term& a) { return Term::apply(functions::is_finite, {a}); }
inline Term where(const Term& condition, const Term& a, const Term& b) {
  return Term::apply(functions::where, {condition, a, b});
}

}  // namespace giro::expr
