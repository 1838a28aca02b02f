#include "kernels/pointwise/build.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "kernels/cpu/expression.h"
#include "kernels/internal/backends.h"
#include "kernels/internal/dispatch.h"

namespace giro::pointwise {
namespace {

// An expression as an op of a program.
class ExpressionCall final : public detail::OpCall {
 public:
  explicit ExpressionCall(Expression expression) : expression_(std::move(expression)) {}

  void move(const detail::MemoryMoves& moves) override {
    for (Access& read : expression_.reads) read.memory = moves(read.memory);
    for (Expression::Write& write : expression_.writes) write.to.memory = moves(write.to.memory);
  }
  void emit(const Stream& stream) const override { GIRO_BACKEND(stream, run)(expression_, stream); }

 private:
  Expression expression_;
};

}  // namespace

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

Builder::Builder(const Shape& space, std::size_t reduced) {
  expression_.space = space;
  expression_.reduced = reduced;
}

std::uint16_t Builder::push(Instruction instruction) {
  expression_.code.push_back(instruction);
  return static_cast<std::uint16_t>(expression_.code.size() - 1);
}

std::uint16_t Builder::read(const Tensor& memory, const Layout& layout) {
  expression_.reads.push_back({memory, layout});
  return push({.kind = Instruction::Kind::read,
               .dtype = memory.dtype(),
               .index = static_cast<std::uint16_t>(expression_.reads.size() - 1)});
}

std::uint16_t Builder::constant(DType dtype, double number) {
  const bool fits = number >= -0x1p63 && number < 0x1p63;
  return push({.kind = Instruction::Kind::constant,
               .dtype = dtype,
               .number = number,
               .integer = dtype == DType::boolean ? number != 0 : fits ? static_cast<std::int64_t>(number) : 0});
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
  expression_.writes.push_back({{memory, layout}, value});
}

void queue(const std::string& name, Expression expression, const Stream& stream) {
  if (!detail::Recording::holds()) {
    detail::run_op(name.c_str(), stream, [&] { GIRO_BACKEND(stream, run)(expression, stream); });
    return;
  }
  std::vector<Tensor> reads, writes;
  for (const Access& read : expression.reads) reads.push_back(read.memory);
  for (const Expression::Write& write : expression.writes) writes.push_back(write.to.memory);
  const auto counts = [](const Instruction& each) {
    return each.kind == Instruction::Kind::apply || each.kind == Instruction::Kind::reduce;
  };
  const auto ops = std::count_if(expression.code.begin(), expression.code.end(), counts);
  const double flops = static_cast<double>(ops) * static_cast<double>(expression.space.count());
  detail::Recording::current()->hold({Program::Node(name, std::move(writes), std::move(reads), flops), stream,
                                      std::make_shared<ExpressionCall>(std::move(expression))});
}

}  // namespace giro::pointwise
