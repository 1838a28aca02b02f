#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/expr/expression.h"

namespace giro::expr {

// An axis of the common space of two expressions.
struct Axis {
  std::int64_t size;
  bool is_reduced;
  int producer = -1, consumer = -1;  // its axis in each; -1: none
};

// Whether the array has a different element for each element of the space.
bool runs_along_all(const Expression& e, const Layout& layout);

// Pairs the axes of both expressions, given how the producer writes a value and how the consumer reads it.
std::optional<std::vector<Axis>> pair_axes(const Expression& p, const Expression& c, const Layout& written,
                                           const Layout& read);

// If an axis of one expression is part of an axis of the other, because an array is reshaped in between, splits the
// larger axis in two. False if no axis was split, or if one cannot be.
bool split_matching_axes(Expression& p, const Layout& written, Expression& c, const Layout& read);

// Decides which axes of the common space are reduced, and puts them last. False if the two do not agree.
bool order_reduced_axes(std::vector<Axis>& axes, const Expression& p, const Expression& c);

// Converts a layout of one of the two expressions to the common axes.
Layout to_common_axes(const Layout& layout, const std::vector<Axis>& axes, int Axis::*of);

}  // namespace giro::expr
