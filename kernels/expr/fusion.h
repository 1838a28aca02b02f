#pragma once

#include <functional>
#include <optional>

#include "kernels/expr/expression.h"

namespace giro::expr {

// The most instructions that are cheaper to recompute than to store.
inline constexpr std::size_t kMaxRecomputed = 4;

// An expression that computes what `producer` and then `consumer` compute, with the same bits. The consumer uses the
// producer's values directly, without reading them from memory. Writes everything that both write.
struct Fused {
  Expression expression;
  // The producer is recomputed along axes that the consumer broadcasts it over, so its result must not be written.
  bool repeats_producer = false;
};

// Where what an expression reads or writes lies in memory.
using MemoryOf = std::function<Tensor(const Tensor&)>;

// Whether two expressions can be one. Which are tried: kernels/rules/fuse_expressions.cpp.
//
// Matches the two spaces by a value that the producer writes and the consumer reads, reshaped or not, or else by an
// array that both read, each element once. nullopt if that is impossible: both reduce, but not over the same axes; the
// consumer reads the producer's values in another order; or one overwrites values that the other still reads.
std::optional<Fused> fuse(const Expression& producer, const Expression& consumer, const MemoryOf& memory_of);

// The expression without some of its writes, and without instructions that only those need.
Expression without_writes(const Expression& expression, const std::function<bool(const Access& to)>& is_dropped);
Expression without_write(const Expression& expression, const Tensor& memory);

}  // namespace giro::expr
