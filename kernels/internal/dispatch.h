#pragma once

#include <giro/runtime/tensor.h>

#include "runtime/internal/op_note.h"

namespace giro {

// For what an op costs.
inline double elements(const Tensor& tensor) { return static_cast<double>(tensor.count()); }

}  // namespace giro

// Calls the CPU's or CUDA's function of the same name and signature, whichever the stream's device asks for. Every op
// is declared in giro:: for users and in giro::cpu:: and giro::cuda:: for the backends.
// GIRO_NOTED(op, {written}, {read}, flops, bytes) before it makes a node of a recording's program (detail::note_op).
#define GIRO_NOTED(op, ...) \
  if (detail::is_noted()) detail::note_op(#op, __VA_ARGS__)
#if GIRO_WITH_CUDA
#define GIRO_DISPATCH(stream, op, ...)      \
  (static_cast<void>(detail::OpScope(#op)), \
   (stream).device().is_cuda() ? cuda::op(__VA_ARGS__, stream) : cpu::op(__VA_ARGS__, stream))
#else
#define GIRO_DISPATCH(stream, op, ...) (static_cast<void>(detail::OpScope(#op)), cpu::op(__VA_ARGS__, stream))
#endif
