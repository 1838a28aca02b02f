#pragma once

// Stream-ordered memory: an allocation and its free are work of a stream. Only work that is ordered after the
// allocation and before the free may touch the memory. The memory is never reused, so a pool holds only sizes and
// settings.

namespace cuda_on_cpu {

struct Block;

// cudaFree of a pool's block. CUDA waits for nothing, and assumes that the program has waited.
void free_unordered(const Block& block, const char* call);

}  // namespace cuda_on_cpu
