#pragma once

#include <array>

#include "tests/cuda_on_cpu/engine/kernel.h"
#include "tests/cuda_on_cpu/engine/thread.h"

namespace giro::simt {

// mma.sync.m16n8k16 for a warp's parts, of bf16 or else f16. Each sum is computed in f64 and rounded once: the PTX
// manual asks for at least single precision and leaves the order open.
void multiply(const std::array<MatrixPart*, Limits::kWarp>& parts, bool is_bf16);

}  // namespace giro::simt
