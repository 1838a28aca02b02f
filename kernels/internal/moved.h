#pragma once

// The types of ops' arguments besides tensors, numbers and choices (runtime/internal/held_op.h).

#include <vector>

#include <giro/kernels/conv2d.h>
#include <giro/kernels/gather.h>
#include <giro/kernels/pool.h>
#include <giro/kernels/publish.h>
#include <giro/kernels/slots.h>

#include "kernels/functors/publish.h"
#include "kernels/pointwise/expression.h"
#include "runtime/internal/memory_moves.h"

namespace giro {

inline const Conv2dOptions& moved(const Conv2dOptions& options, const detail::MemoryMoves&) { return options; }
inline const PoolOptions& moved(const PoolOptions& options, const detail::MemoryMoves&) { return options; }
inline const RowOrder& moved(const RowOrder& order, const detail::MemoryMoves&) { return order; }
inline const RowRing& moved(const RowRing& ring, const detail::MemoryMoves&) { return ring; }

inline SlotRing moved(const SlotRing& ring, const detail::MemoryMoves& moves) {
  return {moves(ring.slots), moves(ring.call)};
}

inline std::vector<GatheredArray> moved(std::vector<GatheredArray> arrays, const detail::MemoryMoves& moves) {
  for (GatheredArray& array : arrays) array = {moves(array.out), moves(array.src), array.factor};
  return arrays;
}

inline RowPart moved(RowPart part, const detail::MemoryMoves& moves) {
  for (int c = 0; c < part.columns; ++c) part.scalars[c] = moves(part.scalars[c]);
  for (int c = 0; c < part.num_counters; ++c) part.counters[c] = static_cast<std::int64_t*>(moves(part.counters[c]));
  return part;
}

}  // namespace giro

namespace giro::pointwise {

inline Expression moved(Expression expression, const giro::detail::MemoryMoves& moves) {
  for (Access& read : expression.reads) read.memory = moves(read.memory);
  for (Expression::Write& write : expression.writes) write.to.memory = moves(write.to.memory);
  return expression;
}

}  // namespace giro::pointwise
