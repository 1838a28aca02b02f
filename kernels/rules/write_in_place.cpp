#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "kernels/expr/expression_op.h"
#include "kernels/expr/fusion.h"
#include "kernels/expr/term.h"
#include "kernels/ops.h"
#include "kernels/rules/op_list.h"
#include "kernels/rules/patterns.h"
#include "kernels/rules/rules.h"
#include "runtime/program/copy.h"

namespace giro::rules {
namespace {

using expr::Access;
using expr::Expression;
using expr::Layout;

// The memory of an access that follows the order of the space.
std::optional<Tensor> contiguous(const Access& access, const Shape& space) {
  const Layout whole = expr::broadcast_layout(space, space);
  for (std::size_t axis = 0; axis < space.rank(); ++axis) {
    const std::int64_t size = space.begin()[axis];
    const bool is_alike = size == 1 || access.layout.strides[axis] == whole.strides[axis];
    if (!is_alike || !access.layout.bounds[axis].holds_all_of(size)) return std::nullopt;
  }
  const std::int64_t begin = access.layout.offset;
  return access.memory.reshape({access.memory.count()}).rows(begin, begin + space.count());
}

// Where op `k`, an expression, copies all of `value` to, unchanged and to contiguous memory that it does not read.
struct CopyOf {
  Access write;
  Tensor memory;
};
std::optional<CopyOf> copy_of(const OpList& ops, std::size_t k, const Tensor& value) {
  const Expression& expression = *expression_of(ops[k]);
  if (expression.reduced > 0 || expression.space.count() != value.count()) return std::nullopt;
  for (const Expression::Write& write : expression.writes) {
    const expr::Instruction& from = expression.code[write.value];
    if (from.kind != expr::Instruction::Kind::read || write.to.memory.dtype() != value.dtype()) continue;
    const auto read = contiguous(expression.reads[from.index], expression.space);
    const auto to = contiguous(write.to, expression.space);
    if (read && same(*read, value) && to && !ops.replaces_reads(*to, k)) return CopyOf{write.to, *to};
  }
  return std::nullopt;
}

// Lets op `i` write `value` to where op `k` would copy it, and takes that copy from op `k`.
bool without_copy(OpList& ops, std::size_t i, std::size_t k, const Tensor& value) {
  if (const auto* const copy = detail::op_of<ops::Copy>(ops[k])) {
    if (copy->from.place() != value.place() || copy->from.bytes() != value.bytes() ||
        !ops.write_in_place_of(copy->to, value, i, k)) {
      return false;
    }
    ops.drop(k);
    return true;
  }
  const std::optional<CopyOf> copy = expression_of(ops[k]) != nullptr ? copy_of(ops, k, value) : std::nullopt;
  if (!copy || !ops.write_in_place_of(copy->memory, value, i, k)) return false;
  Expression rest =
      expr::without_writes(*expression_of(ops[k]), [&](const Access& other) { return other == copy->write; });
  if (rest.writes.empty()) {
    ops.drop(k);
  } else {
    ops.replace(k, ops[k].node.op, std::move(rest));
  }
  return true;
}

}  // namespace

// A value that is only copied elsewhere, such as a gradient to its leaf or a part of a concatenation, is written to the
// destination directly.
bool write_in_place(OpList& ops, std::size_t i) {
  for (const Tensor& value : ops.writes(i)) {
    const auto readers = ops.readers(i, value);
    if (!readers) continue;
    for (const std::size_t k : *readers) {
      if (without_copy(ops, i, k, Tensor(value))) return true;
    }
  }
  return false;
}

// A value that is only read to compute a leaf, element by element, such as the first of two gradients that are added,
// is written to the leaf, over which that op then writes: it needs no memory of its own. The same for what is held.
bool write_over_in_leaf(OpList& ops, std::size_t i) {
  for (const Tensor& value : ops.writes(i)) {
    const auto reader = ops.only_reader(i, value);
    if (!reader) continue;
    const Expression* const expression = expression_of(ops[*reader]);
    if (expression == nullptr) continue;
    for (const Tensor& to : ops.writes(*reader)) {
      if (ops.is_temporary(to) || expression->space.count() != to.count()) continue;
      if (ops.replaces_reads(to, *reader) || !may_write_over(*expression, to, value)) continue;
      if (ops.write_under(to, value, i, *reader)) return true;
    }
  }
  return false;
}

}  // namespace giro::rules
