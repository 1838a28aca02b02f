#include "kernels/expr/build.h"

#include <algorithm>

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

std::uint16_t Builder::push(Instruction instruction) {
  expression_.code.push_back(instruction);
  return static_cast<std::uint16_t>(expression_.code.size() - 1);
}

std::uint16_t Builder::read(const Tensor& memory, const Layout& layout) {
  expect_memory(memory);
  expression_.reads.push_back({memory, layout});
  return push({.kind = Instruction::Kind::read,
               .dtype = memory.dtype(),
               .index = static_cast<std::uint16_t>(expression_.reads.size() - 1)});
}

std::uint16_t Builder::place(const Layout& layout) {
  expression_.places.push_back(layout);
  return push({.kind = Instruction::Kind::place,
               .dtype = DType::i64,
               .index = static_cast<std::uint16_t>(expression_.places.size() - 1)});
}

std::uint16_t Builder::constant(DType dtype, double number, std::int64_t integer) {
  return push({.kind = Instruction::Kind::constant,
               .dtype = dtype,
               .number = number,
               .integer = dtype == DType::boolean ? number != 0 : integer});
}

std::uint16_t Builder::cast(std::uint16_t value, DType dtype) {
  if (this->dtype(value) == dtype) return value;
  return push({.kind = Instruction::Kind::cast, .dtype = dtype, .operands = {value}});
}

std::uint16_t Builder::apply(const ScalarFunction& function, DType result, std::span<const std::uint16_t> operands) {
  Instruction instruction{.kind = Instruction::Kind::apply, .dtype = result, .function = &function};
  std::copy(operands.begin(), operands.end(), instruction.operands.begin());
  return push(instruction);
}

std::uint16_t Builder::reduce(Combiner combiner, DType result, std::uint16_t value) {
  return push({.kind = Instruction::Kind::reduce, .dtype = result, .combiner = combiner, .operands = {value}});
}

void Builder::write(std::uint16_t value, const Tensor& memory, const Layout& layout) {
  expect_memory(memory);
  expression_.writes.push_back({{memory, layout}, value});
}

}  // namespace giro::expr
