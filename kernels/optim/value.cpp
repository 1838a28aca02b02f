#include <giro/kernels/optim/value.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

#include <giro/kernels/nn/functional.h>
#include <giro/runtime/program/graph.h>
#include <giro/runtime/stream.h>

#include "kernels/expr/expression_op.h"
#include "kernels/expr/term.h"
#include "kernels/nn/apply.h"
#include "runtime/throw_error.h"

namespace giro::optim {

using expr::Builder;
using expr::ScalarFunction;
using expr::Takes;

Value::Value(const expr::Term& term) : builder_(&term.builder()), value_(term.value()) {}

const nn::Var& Value::var() const {
  if (var_) return *var_;
  throw_invalid("optimizer: found a number or a flat value, expected the value of a single leaf");
}

DType Value::dtype() const { return var_ ? var_->dtype() : builder_->dtype(value_); }

Value Value::cast(DType dtype) const { return var_ ? Value(nn::cast(*var_, dtype)) : Value(in(*builder_).cast(dtype)); }

expr::Term Value::in(Builder& builder, DType dtype) const {
  if (builder_ == &builder) return {builder, value_};
  if (!is_number()) {
    throw_invalid("optimizer: found a value from another update, expected one from this update");
  }
  return builder.constant(dtype, number_, is_floating(dtype) ? 0 : integer_);
}

template <class T>
Value Value::computed(const ScalarFunction& function, std::initializer_list<Value> operands) {
  std::array<T, 3> numbers{};
  std::array<const void*, 3> in{};
  std::size_t count = 0;
  for (const Value& each : operands) {
    numbers[count] = std::is_same_v<T, std::int64_t> ? static_cast<T>(each.integer_) : static_cast<T>(each.number_);
    in[count] = &numbers[count];
    ++count;
  }
  T number{};  // no function of whole numbers gives another type than this, or bool
  bool is_true = false;
  const bool is_condition = function.rules.result(dtype_of<T>) == DType::boolean;
  function.loops.get(dtype_of<T>)(in.data(), is_condition ? static_cast<void*>(&is_true) : &number, 1);
  return is_condition ? Value(is_true) : Value(number);
}

Value Value::apply(const ScalarFunction& function, std::initializer_list<Value> operands) {
  namespace functions = expr::functions;
  const auto typed = std::find_if(operands.begin(), operands.end(), [](const Value& v) { return !v.is_number(); });
  const bool selects = function.rules.takes == Takes::select;
  const bool may_be_whole = function.rules.takes == Takes::integers || function.rules.takes == Takes::any ||
                            &function == &functions::add || &function == &functions::subtract;
  const bool is_whole = may_be_whole && std::all_of(operands.begin(), operands.end(), [](const Value& v) {
                          return v.is_number() ? v.is_whole_ : v.dtype() == DType::i64;
                        });
  if (function.rules.takes == Takes::integers && !is_whole) {
    throw_error(ErrorCode::dtype_mismatch,
                "optimizer: {} of values that are not integers, expected a step and whole numbers", function.name);
  }
  const bool is_double = std::any_of(operands.begin(), operands.end(),
                                     [](const Value& v) { return !v.is_number() && v.dtype() == DType::f64; });
  const DType dtype = is_whole                                 ? DType::i64
                      : function.rules.takes == Takes::boolean ? DType::boolean
                      : is_double                              ? DType::f64
                                                               : DType::f32;
  if (typed == operands.end()) {
    return is_whole                  ? computed<std::int64_t>(function, operands)
           : dtype == DType::boolean ? computed<bool>(function, operands)
                                     : computed<float>(function, operands);
  }
  if (typed->var_) {
    std::vector<nn::Operand> values;
    for (const Value& each : operands) {
      if (each.is_number()) {
        values.push_back(is_whole ? nn::Operand(each.integer_) : nn::Operand(each.number_));
      } else {
        values.emplace_back(selects && values.empty() ? each.var() : each.cast(dtype).var());
      }
    }
    return Value(nn::apply(function, values));
  }
  std::vector<expr::Term> terms;
  for (const Value& each : operands) {
    const expr::Term term = each.in(*typed->builder_, dtype);
    terms.push_back(selects && terms.empty() ? term : term.cast(dtype));
  }
  return Value(expr::Term::apply(function, terms));
}

#define GIRO_VALUE_OF_1(name, function) \
  Value name(const Value& a) { return Value::apply(expr::functions::function, {a}); }
#define GIRO_VALUE_OF_2(name, function) \
  Value name(const Value& a, const Value& b) { return Value::apply(expr::functions::function, {a, b}); }
GIRO_VALUE_OF_2(operator+, add)
GIRO_VALUE_OF_2(operator-, subtract)
GIRO_VALUE_OF_2(operator*, multiply)
GIRO_VALUE_OF_2(operator/, divide)
GIRO_VALUE_OF_1(operator-, negate)
GIRO_VALUE_OF_2(operator==, equal)
GIRO_VALUE_OF_2(operator!=, not_equal)
GIRO_VALUE_OF_2(operator<, less)
GIRO_VALUE_OF_2(operator<=, less_equal)
GIRO_VALUE_OF_2(operator>, greater)
GIRO_VALUE_OF_2(operator>=, greater_equal)
GIRO_VALUE_OF_2(logical_and, logical_and)
GIRO_VALUE_OF_2(logical_or, logical_or)
GIRO_VALUE_OF_1(logical_not, logical_not)
GIRO_VALUE_OF_1(abs, abs)
GIRO_VALUE_OF_1(sign, sign)
GIRO_VALUE_OF_1(square, square)
GIRO_VALUE_OF_1(sqrt, sqrt)
GIRO_VALUE_OF_1(rsqrt, rsqrt)
GIRO_VALUE_OF_1(exp, exp)
GIRO_VALUE_OF_1(expm1, expm1)
GIRO_VALUE_OF_1(log, log)
GIRO_VALUE_OF_1(cos, cos)
GIRO_VALUE_OF_2(power, power)
GIRO_VALUE_OF_2(minimum, minimum)
GIRO_VALUE_OF_2(maximum, maximum)
GIRO_VALUE_OF_1(is_finite, is_finite)
GIRO_VALUE_OF_2(quotient, quotient)
GIRO_VALUE_OF_2(remainder, remainder)
#undef GIRO_VALUE_OF_1
#undef GIRO_VALUE_OF_2

Value where(const Value& condition, const Value& a, const Value& b) {
  if (condition.is_number()) return condition.number() != 0 ? a : b;
  return Value::apply(expr::functions::where, {condition, a, b});
}

Value clamp(const Value& a, const Value& lowest, const Value& highest) { return minimum(maximum(a, lowest), highest); }

float evaluate(const std::function<Value(const Value&)>& f, std::int64_t step) {
  Builder builder({});
  const Value argument(builder.read(Tensor(&step, DType::i64, {}, Device::cpu()), {}));
  const Value result = f(argument);
  if (result.is_number()) return static_cast<float>(result.number());
  float number = 0;
  result.in(builder).cast(DType::f32).write(Tensor(&number, DType::f32, {}, Device::cpu()), {});
  const OutsideRecording outside;
  cpu::run(std::move(builder).take(), Stream(Device::cpu()));  // done when it returns
  return number;
}

}  // namespace giro::optim
