#pragma once

// NCCL's element types and reductions.

#include <nccl.h>

#include <cstddef>
#include <vector>

namespace cuda_on_cpu {

// The size of an element; 0 for a type that is not emulated.
std::size_t nccl_type_bytes(ncclDataType_t type);
const char* nccl_type_name(ncclDataType_t type);

// Reduces one number from each rank to one, in the order of the ranks. Floating point is computed in double and rounded
// at the end, whereas NCCL rounds each sum of two ranks (src/device/reduce_kernel.h of NCCL 2.28.9). `ranks[r]` points
// at `count` elements.
void nccl_reduce(void* out, const std::vector<const void*>& ranks, std::size_t count, ncclDataType_t type,
                 ncclRedOp_t op);

}  // namespace cuda_on_cpu
