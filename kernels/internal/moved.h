#pragma once

// The types of ops' arguments besides tensors, numbers and choices (runtime/internal/held_op.h).

#include <vector>

#include <giro/kernels/conv2d.h>
#include <giro/kernels/gather.h>
#include <giro/kernels/optim/loss_scale.h>
#include <giro/kernels/optim/update.h>
#include <giro/kernels/pool.h>
#include <giro/kernels/publish.h>
#include <giro/kernels/slots.h>

#include "kernels/functors/publish.h"
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

namespace giro::optim {

inline const UpdateRule& moved(const UpdateRule& rule, const giro::detail::MemoryMoves&) { return rule; }

inline UpdateTensors moved(UpdateTensors tensors, const giro::detail::MemoryMoves& moves) {
  for (Tensor* tensor : {&tensors.params, &tensors.grads, &tensors.mu, &tensors.nu, &tensors.decays, &tensors.step,
                         &tensors.learning_rate, &tensors.squared_norm, &tensors.loss_scale, &tensors.skipped}) {
    *tensor = moves(*tensor);
  }
  return tensors;
}

inline LossScale moved(const LossScale& scale, const giro::detail::MemoryMoves& moves) {
  return {moves(scale.scale), moves(scale.good_steps), moves(scale.skipped)};
}

}  // namespace giro::optim
