#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "kernels/expr/expression.h"
#include "kernels/rules/op_list.h"

// Patterns that rules match: expressions that read and write whole arrays in element order.
namespace giro::rules {

// The op's expression, or null.
const expr::Expression* expression_of(const detail::HeldOp& op);

// out = factor * in, computed in f32 and converted once; a conversion or a copy has the factor 1.
struct Scaling {
  Tensor out{}, in{};
  double factor = 1;
};
std::optional<Scaling> scaling_of(const detail::HeldOp& op);

// out = a + b.
struct Addition {
  Tensor out, a, b;
};
std::optional<Addition> addition_of(const detail::HeldOp& op);

// What is computed of one array: the mean of all of it, f32; its relu.
struct Computed {
  Tensor out, in;
};
std::optional<Computed> mean_of(const detail::HeldOp& op);
std::optional<Computed> relu_of(const detail::HeldOp& op);

// out = in where y > 0, else 0.
struct ReluGradient {
  Tensor out, in, y;
};
std::optional<ReluGradient> relu_gradient_of(const detail::HeldOp& op);

// A counter that is incremented in its place, i64.
struct Increment {
  Tensor after, before;
  std::int64_t amount = 0;
};
std::optional<Increment> increment_of(const OpList& ops, std::size_t i);

// The only reader of what op `i` writes to `value` (OpList::only_reader), if it is such a pattern whose `in` is that.
template <class Pattern>
struct ReaderOf : Pattern {
  std::size_t at;
};
template <class Pattern>
std::optional<ReaderOf<Pattern>> only_reader_as(std::optional<Pattern> (*pattern)(const detail::HeldOp&),
                                                const OpList& ops, std::size_t i, const Tensor& value) {
  const auto at = ops.only_reader(i, value);
  const auto found = at ? pattern(ops[*at]) : std::nullopt;
  return found && same(found->in, value) ? std::optional(ReaderOf<Pattern>{*found, *at}) : std::nullopt;
}

}  // namespace giro::rules
