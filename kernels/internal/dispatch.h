#pragma once

#include "runtime/internal/op_scope.h"

// Calls the CPU's or CUDA's function of the same name and signature, whichever the stream's device asks for. Every op
// is declared in giro:: for users and in giro::cpu:: and giro::cuda:: for the backends.
#if GIRO_WITH_CUDA
#define GIRO_DISPATCH(stream, op, ...)      \
  (static_cast<void>(detail::OpScope(#op)), \
   (stream).device().is_cuda() ? cuda::op(__VA_ARGS__, stream) : cpu::op(__VA_ARGS__, stream))
#else
#define GIRO_DISPATCH(stream, op, ...) (static_cast<void>(detail::OpScope(#op)), cpu::op(__VA_ARGS__, stream))
#endif
