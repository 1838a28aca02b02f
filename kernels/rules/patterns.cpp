#include "kernels/rules/patterns.h"

#include <cmath>

#include "kernels/expr/table.h"
#include "kernels/expr/term.h"

namespace giro::rules {
namespace {

using expr::Access;
using expr::Expression;
using expr::Instruction;
using expr::ScalarFunction;
using Kind = Instruction::Kind;
namespace functions = expr::functions;

// A value of an expression, and what it is computed from.
class Value {
 public:
  Value(const Expression& expression, std::size_t number) : expression_(expression), at_(expression.code[number]) {}

  DType dtype() const { return at_.dtype; }
  bool is(const ScalarFunction& function) const { return at_.kind == Kind::apply && at_.function == &function; }
  bool is_cast() const { return at_.kind == Kind::cast; }
  bool reduces(expr::Combiner combiner) const { return at_.kind == Kind::reduce && at_.combiner == combiner; }
  bool is_constant() const { return at_.kind == Kind::constant; }
  double number() const { return at_.number; }
  std::int64_t integer() const { return at_.integer; }
  bool is_zero() const { return is_constant() && at_.number == 0 && !std::signbit(at_.number) && at_.integer == 0; }
  Value operand(std::size_t i) const { return {expression_, at_.operands[i]}; }
  // The array from which it is read; empty if it is not a read.
  Tensor array() const { return at_.kind == Kind::read ? expression_.reads[at_.index].memory : Tensor(); }

 private:
  const Expression& expression_;
  const Instruction& at_;
};

bool is_whole(const Access& access, const Shape& space) {
  return access.layout == expr::broadcast_layout(space, space) && access.memory.count() == space.count();
}

// The value that the op writes, if it writes only one and accesses only whole arrays.
std::optional<Value> result_of(const detail::HeldOp& op) {
  const Expression* const expression = expression_of(op);
  if (expression == nullptr || expression->writes.size() != 1) return std::nullopt;
  for (const Access& read : expression->reads) {
    if (!is_whole(read, expression->space)) return std::nullopt;
  }
  if (!is_whole(expression->writes.front().to, expression->space)) return std::nullopt;
  return Value(*expression, expression->writes.front().value);
}

const Tensor& written(const detail::HeldOp& op) { return expression_of(op)->writes.front().to.memory; }

}  // namespace

const Expression* expression_of(const detail::HeldOp& op) { return detail::op_of<Expression>(op); }

std::optional<Scaling> scaling_of(const detail::HeldOp& op) {
  std::optional<Value> value = result_of(op);
  if (!value) return std::nullopt;
  Scaling found{.out = written(op)};
  if (value->is_cast()) value.emplace(value->operand(0));
  if (value->is(functions::multiply) && value->dtype() == DType::f32) {
    const std::size_t factor = value->operand(0).is_constant() ? 0 : 1;
    if (!value->operand(factor).is_constant()) return std::nullopt;
    found.factor = value->operand(factor).number();
    value.emplace(value->operand(1 - factor));
    if (value->is_cast()) value.emplace(value->operand(0));
  }
  found.in = value->array();
  return found.in && found.in.dtype() != DType::f64 ? std::optional(found) : std::nullopt;
}

std::optional<Addition> addition_of(const detail::HeldOp& op) {
  const std::optional<Value> value = result_of(op);
  if (!value || !value->is(functions::add)) return std::nullopt;
  const Addition found{written(op), value->operand(0).array(), value->operand(1).array()};
  return found.a && found.b ? std::optional(found) : std::nullopt;
}

std::optional<Computed> mean_of(const detail::HeldOp& op) {
  const Expression* const expression = expression_of(op);
  if (expression == nullptr || expression->writes.size() != 1 || expression->reads.size() != 1 ||
      expression->reduced != expression->space.rank() || !is_whole(expression->reads.front(), expression->space)) {
    return std::nullopt;
  }
  const Value quotient(*expression, expression->writes.front().value);
  if (!quotient.is(functions::divide) || quotient.dtype() != DType::f32) return std::nullopt;
  const Value sum = quotient.operand(0), count = quotient.operand(1);
  if (!sum.reduces(expr::Combiner::sum) || !count.is_constant() ||
      count.number() != static_cast<double>(expression->space.count())) {
    return std::nullopt;
  }
  const Computed found{written(op), sum.operand(0).array()};
  return found.in ? std::optional(found) : std::nullopt;
}

std::optional<Increment> increment_of(const OpList& ops, std::size_t i) {
  const std::optional<Value> value = result_of(ops[i]);
  if (!value || !value->is(functions::add) || value->dtype() != DType::i64 || !value->operand(1).is_constant()) {
    return std::nullopt;
  }
  const Tensor before = value->operand(0).array(), after = written(ops[i]);
  if (!before || !ops.replaces_exactly(after, before) || before.count() != 1) return std::nullopt;
  return Increment{after, before, value->operand(1).integer()};
}

std::optional<Computed> relu_of(const detail::HeldOp& op) {
  const std::optional<Value> value = result_of(op);
  if (!value || !value->is(functions::relu)) return std::nullopt;
  const Computed found{written(op), value->operand(0).array()};
  return found.in ? std::optional(found) : std::nullopt;
}

std::optional<ReluGradient> relu_gradient_of(const detail::HeldOp& op) {
  const std::optional<Value> value = result_of(op);
  if (!value || !value->is(functions::where)) return std::nullopt;
  const Value is_open = value->operand(0), otherwise = value->operand(2);
  if (!is_open.is(functions::greater) || !is_open.operand(1).is_zero() || !otherwise.is_zero()) return std::nullopt;
  const ReluGradient found{written(op), value->operand(1).array(), is_open.operand(0).array()};
  return found.in && found.y ? std::optional(found) : std::nullopt;
}

}  // namespace giro::rules
