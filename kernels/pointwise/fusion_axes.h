#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/pointwise/expression.h"

namespace giro::pointwise {

// The axes of a space one by one, while two spaces are brought together.
struct Axis {
  std::int64_t size;
  bool is_reduced;
  int producer = -1, consumer = -1;  // which axis of each it is
};

// Whether the array has an element for each of the space, none of them twice.
bool runs_along_all(const Expression& e, const Layout& layout);

// Pairs the axes of both, given where the producer writes a value and how the consumer reads it.
std::optional<std::vector<Axis>> pair_axes(const Expression& p, const Expression& c, const Layout& written,
                                           const Layout& read);

// Where an axis of the one lies along a part of an axis of the other, as of an array that is reshaped in between, cuts
// that in two. Returns whether there is such an axis.
bool cut_alike(Expression& p, const Layout& written, Expression& c, const Layout& read);

// Decides over which axes the common space is reduced, and puts them last. False if the two do not agree.
bool agree(std::vector<Axis>& axes, const Expression& p, const Expression& c);

// How one of the two lies along the common axes.
Layout moved(const Layout& layout, const std::vector<Axis>& axes, int Axis::*of);

}  // namespace giro::pointwise
