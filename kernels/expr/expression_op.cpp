#include "kernels/expr/expression_op.h"

#include <algorithm>
#include <ranges>
#include <utility>
#include <vector>

#include "kernels/expr/analysis.h"
#include "kernels/expr/fusion_axes.h"
#include "runtime/dispatch.h"
#include "runtime/program/overlap.h"

namespace giro::expr {
namespace {

// The number of distinct elements, within bounds.
std::int64_t elements_of(const Access& access, const Shape& space) {
  std::int64_t elements = 1;
  for (std::size_t axis = 0; axis < space.rank(); ++axis) {
    const Layout::Bounds& bounds = access.layout.bounds[axis];
    if (access.layout.strides[axis] != 0) elements *= std::min(bounds.end, space.begin()[axis]) - bounds.begin;
  }
  return elements;
}

}  // namespace

void Expression::check(std::string_view op, const Stream& stream) const {
  for (const Access& read : reads) detail::expect_on_device(op, read.memory, stream.device());
  for (const Write& write : writes) detail::expect_on_device(op, write.to.memory, stream.device());
}

void run(const Expression& expression, const Stream& stream) { GIRO_DISPATCH(stream, run(expression, stream)); }

bool may_write_over(const Expression& expression, const Tensor& write, const Tensor& read) {
  const Access* to = nullptr;
  for (const Expression::Write& each : expression.writes) {
    // A write that copies `read` elsewhere may run last, after `read` was overwritten.
    const Instruction& value = expression.code[each.value];
    if (value.kind == Instruction::Kind::read && detail::overlap(expression.reads[value.index].memory, read)) {
      return false;
    }
    if (!detail::overlap(each.to.memory, write)) continue;
    if (to != nullptr || each.to.memory.place() != write.place()) return false;
    to = &each.to;
  }
  if (to == nullptr || reduces(expression) || !runs_along_all(expression, to->layout)) return false;
  return std::all_of(expression.reads.begin(), expression.reads.end(), [&](const Access& from) {
    return !detail::overlap(from.memory, read) ||
           (from.memory.place() == read.place() && from.memory.dtype() == to->memory.dtype() &&
            from.layout == to->layout);
  });
}

bool writes_only_some(const Expression& expression, const Tensor& memory) {
  std::int64_t written = 0;
  for (const Expression::Write& write : expression.writes) {
    if (write.to.memory.place() != memory.place() || write.to.memory.bytes() != memory.bytes()) continue;
    written += elements_of(write.to, expression.space);
  }
  return written < memory.count();
}

namespace {

// Counts function calls, per element or per row, and the steps of reductions.
double operations(const Expression& expression) {
  const Shape of_rows(std::span(expression.space.begin(), expression.space.end() - expression.reduced));
  const auto rows = static_cast<double>(of_rows.count()), elements = static_cast<double>(expression.space.count());
  const auto varies = [&](const Instruction& each) {
    const bool is_read = each.kind == Instruction::Kind::read;
    const auto& strides = is_read ? expression.reads[each.index].layout.strides : expression.places[each.index].strides;
    const auto end = strides.begin() + static_cast<std::ptrdiff_t>(expression.space.rank());
    return std::any_of(end - static_cast<std::ptrdiff_t>(expression.reduced), end,
                       [](auto stride) { return stride != 0; });
  };
  const std::vector<bool> is_of_element = values_of_elements(expression, varies);
  double sum = 0;
  for (std::size_t i = 0; i < expression.code.size(); ++i) {
    const Instruction::Kind kind = expression.code[i].kind;
    if (kind == Instruction::Kind::reduce) sum += elements;
    if (kind == Instruction::Kind::apply) sum += is_of_element[i] ? elements : rows;
  }
  return sum;
}

}  // namespace

Program::Node node_of(std::string name, const Expression& expression) {
  // An array counts once, even if several parts of it are accessed, and with at most its size in bytes.
  std::vector<Tensor> reads, writes;
  std::int64_t bytes = 0;
  const auto add = [&](std::vector<Tensor>& to, const auto& accesses) {
    for (const Access& first : accesses) {
      const Tensor& memory = first.memory;
      const auto is_same = [&](const Tensor& other) {
        return other.place() == memory.place() && other.bytes() == memory.bytes();
      };
      if (std::any_of(to.begin(), to.end(), is_same)) continue;
      to.push_back(memory);
      std::int64_t touched = 0;
      for (const Access& each : accesses) {
        if (!is_same(each.memory)) continue;
        touched += elements_of(each, expression.space) * static_cast<std::int64_t>(size_of(each.memory.dtype()));
      }
      bytes += std::min(touched, static_cast<std::int64_t>(memory.bytes()));
    }
  };
  add(reads, expression.reads);
  add(writes, expression.writes | std::views::transform(&Expression::Write::to));
  return {std::move(name), std::move(writes), std::move(reads), operations(expression), bytes};
}

}  // namespace giro::expr
