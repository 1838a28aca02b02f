#include "kernels/expr/term.h"

#include "runtime/throw_error.h"

namespace giro::expr {

Layout broadcast_layout(const Shape& array, const Shape& to) {
  Layout layout;
  std::int64_t stride = 1;
  for (std::size_t i = array.rank(); i-- > 0;) {
    const std::size_t axis = to.rank() - array.rank() + i;
    const std::int64_t size = array.begin()[i];
    if (size != 1) layout.strides[axis] = stride;
    stride *= size;
  }
  return layout;
}

namespace {

void expect_memory(const Tensor& memory) {
  if (memory.is_empty()) throw_invalid("an operand is empty, expected a value");
}

}  // namespace

Builder::Builder(const Shape& space, std::size_t reduced) {
  expression_.space = space;
  expression_.reduced = reduced;
}

Term Builder::push(const Instruction& instruction) {
  expression_.code.push_back(instruction);
  return {*this, static_cast<std::uint16_t>(expression_.code.size() - 1)};
}

Term Builder::read(const Tensor& memory, const Layout& layout) {
  expect_memory(memory);
  expression_.reads.push_back({memory, layout});
  return push({.kind = Instruction::Kind::read,
               .dtype = memory.dtype(),
               .index = static_cast<std::uint16_t>(expression_.reads.size() - 1)});
}

Term Builder::place(const Layout& layout) {
  expression_.places.push_back(layout);
  return push({.kind = Instruction::Kind::place,
               .dtype = DType::i64,
               .index = static_cast<std::uint16_t>(expression_.places.size() - 1)});
}

Term Builder::constant(DType dtype, double number, std::int64_t integer) {
  return push({.kind = Instruction::Kind::constant,
               .dtype = dtype,
               .number = number,
               .integer = dtype == DType::boolean ? number != 0 : integer});
}

Term Builder::constant(DType dtype, double number) {
  return constant(dtype, number, is_floating(dtype) ? 0 : static_cast<std::int64_t>(number));
}

Term Term::apply(const ScalarFunction& function, std::span<const Term> operands) {
  auto typed = operands.begin();
  if (function.rules.takes == Takes::select) ++typed;
  while (typed + 1 != operands.end() && typed->builder_ == nullptr) ++typed;
  Builder& builder = *typed->builder_;
  const DType dtype = builder.dtype(typed->value_);
  Instruction instruction{
      .kind = Instruction::Kind::apply, .dtype = function.rules.result(dtype), .function = &function};
  std::size_t count = 0;
  for (const Term& operand : operands) instruction.operands[count++] = operand.in(builder, dtype);
  return builder.push(instruction);
}

Term Term::reduce(Combiner combiner, DType dtype) const {
  return builder_->push(
      {.kind = Instruction::Kind::reduce, .dtype = dtype, .combiner = combiner, .operands = {value_}});
}

Term Term::cast(DType dtype) const {
  if (builder_->dtype(value_) == dtype) return *this;
  return builder_->push({.kind = Instruction::Kind::cast, .dtype = dtype, .operands = {value_}});
}

void Term::write(const Tensor& memory, const Layout& layout) const {
  expect_memory(memory);
  builder_->expression_.writes.push_back({{memory, layout}, value_});
}

std::uint16_t Term::in(Builder& builder, DType dtype) const {
  if (builder_ != nullptr) return value_;
  return builder.constant(dtype, number_, is_floating(dtype) ? 0 : integer_).value_;
}

}  // namespace giro::expr
