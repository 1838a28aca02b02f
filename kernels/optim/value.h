#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>

#include <giro/kernels/nn/var.h>

namespace giro::expr {
class Builder;
class Term;
struct ScalarFunction;
}  // namespace giro::expr

namespace giro::optim {

// A value of an optimizer's update or of a learning rate's schedule: a number, a scalar, or one value per element of
// the parameters. The usual operators and the functions below combine values with each other and with numbers. Anything
// that depends on scalars alone is computed once, not for each element. All values are f32, except that a step stays
// exact when whole numbers are added to it or compared with it. Conditions are boolean.
class Value {
 public:
  template <std::floating_point T>
  Value(T number) : number_(static_cast<double>(number)) {}
  template <std::integral T>
  Value(T number)
      : number_(static_cast<double>(number)), integer_(static_cast<std::int64_t>(number)), is_whole_(true) {}
  explicit Value(nn::Var var) : var_(std::move(var)) {}
  explicit Value(const expr::Term& term);

  bool is_number() const noexcept { return builder_ == nullptr && !var_; }
  double number() const noexcept { return number_; }
  // The Var, in a per-leaf update. Error(invalid_argument) for any other value.
  const nn::Var& var() const;
  // The same in the builder's expression, in which a number becomes a constant.
  expr::Term in(expr::Builder& builder, DType dtype = DType::f32) const;

  static Value apply(const expr::ScalarFunction& function, std::initializer_list<Value> operands);

 private:
  friend class Update;
  DType dtype() const;
  Value cast(DType dtype) const;
  // The function of numbers, computed on the host as the type T.
  template <class T>
  static Value computed(const expr::ScalarFunction& function, std::initializer_list<Value> operands);

  std::optional<nn::Var> var_;
  expr::Builder* builder_ = nullptr;
  std::uint16_t value_ = 0;
  double number_ = 0;
  std::int64_t integer_ = 0;  // exact, for a whole number
  bool is_whole_ = false;
};

Value operator+(const Value& a, const Value& b);
Value operator-(const Value& a, const Value& b);
Value operator*(const Value& a, const Value& b);
Value operator/(const Value& a, const Value& b);
Value operator-(const Value& a);
Value operator==(const Value& a, const Value& b);
Value operator!=(const Value& a, const Value& b);
Value operator<(const Value& a, const Value& b);
Value operator<=(const Value& a, const Value& b);
Value operator>(const Value& a, const Value& b);
Value operator>=(const Value& a, const Value& b);
Value logical_and(const Value& a, const Value& b);
Value logical_or(const Value& a, const Value& b);
Value logical_not(const Value& a);
// a where the condition holds, else b. A number counts as true unless it is 0.
Value where(const Value& condition, const Value& a, const Value& b);
Value abs(const Value& a);
Value sign(const Value& a);  // -1, 0, 1 or NaN
Value square(const Value& a);
Value sqrt(const Value& a);
Value rsqrt(const Value& a);  // 1 / sqrt(a)
Value exp(const Value& a);
Value expm1(const Value& a);  // exp(a) - 1, accurate near 0
Value log(const Value& a);
Value cos(const Value& a);
Value power(const Value& a, const Value& b);
Value minimum(const Value& a, const Value& b);  // NaN if either is
Value maximum(const Value& a, const Value& b);
Value clamp(const Value& a, const Value& lowest, const Value& highest);
Value is_finite(const Value& a);
// Of whole numbers: a / b, truncated toward 0, and its remainder.
Value quotient(const Value& a, const Value& b);
Value remainder(const Value& a, const Value& b);

// f(step) computed on the host, with the same bits as in a step on the CPU.
float evaluate(const std::function<Value(const Value&)>& f, std::int64_t step);

}  // namespace giro::optim
