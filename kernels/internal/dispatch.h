#pragma once

#include <giro/runtime/tensor.h>

#include "kernels/internal/moved.h"
#include "runtime/internal/emit.h"
#include "runtime/internal/recording.h"

namespace giro {

// For what an op costs.
inline double elements(const Tensor& tensor) { return static_cast<double>(tensor.count()); }

}  // namespace giro

// The CPU's or CUDA's function of that name, whichever the stream's device asks for. Every op is declared in giro:: for
// users and in giro::cpu:: and giro::cuda:: for the backends.
#if GIRO_WITH_CUDA
#define GIRO_BACKEND(stream, op) ((stream).device().is_cuda() ? &cuda::op : &cpu::op)
#else
#define GIRO_BACKEND(stream, op) (&cpu::op)
#endif

// Queues an op: GIRO_QUEUE(stream, op, (arguments), {written}, {read}, flops, bytes). Within a recording it is held as
// a node of the program (Program::Node, which tells what may be left out).
#define GIRO_QUEUE(stream, op, arguments, ...)                                                                  \
  do {                                                                                                          \
    if (detail::Recording::holds()) {                                                                           \
      detail::Recording::current()->hold({Program::Node(#op, __VA_ARGS__), stream,                              \
                                          detail::call_of(GIRO_BACKEND(stream, op), GIRO_UNPACKED arguments)}); \
    } else {                                                                                                    \
      detail::run_op(#op, stream, [&] { GIRO_BACKEND(stream, op)(GIRO_UNPACKED arguments, stream); });          \
    }                                                                                                           \
  } while (false)
#define GIRO_UNPACKED(...) __VA_ARGS__
