#pragma once

#include <vector>

#include "runtime/program/held_op.h"

// What a backend does before the ops of a program are queued.
namespace giro::cpu {
inline void prepare(const std::vector<detail::HeldOp>&, const Stream&) {}
}  // namespace giro::cpu
namespace giro::cuda {
// Compiles the generated kernels of these ops.
void prepare(const std::vector<detail::HeldOp>& ops, const Stream& stream);
}  // namespace giro::cuda
