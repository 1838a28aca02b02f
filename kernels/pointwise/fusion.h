#pragma once

#include <optional>

#include "kernels/pointwise/expression.h"

namespace giro::pointwise {

// Instructions that are cheaper to repeat than to store.
inline constexpr std::size_t kMostRepeated = 4;

// One expression that computes what `producer` and then `consumer` compute, to the same bits: the consumer takes the
// values that it would have read. It writes all that both do.
struct Fused {
  Expression expression;
  // The producer is computed again for elements along which the consumer broadcasts it: so it must not be written.
  bool repeats_producer = false;
};

// Their spaces are brought together by a value that the one writes and the other reads, reshaped or not, or else by an
// array of which both read each element once. None where that cannot be: both reduce, and not over the same axes; the
// consumer reads the producer's values in another order than they are written in; or one overwrites what the other
// still reads.
std::optional<Fused> fuse(const Expression& producer, const Expression& consumer);

// Without the write to that memory, and without what was computed for it alone.
Expression without_write(const Expression& expression, const Tensor& memory);

}  // namespace giro::pointwise
