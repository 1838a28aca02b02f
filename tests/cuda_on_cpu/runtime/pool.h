#pragma once

// Stream-ordered memory: an allocation and its free are work of a stream. Only work that is ordered after the
// one and before the other may touch the memory. It is never handed out again, so a pool is nothing but its
// figures.

namespace cuda_on_cpu {

struct Block;

// cudaFree of a pool's block: CUDA waits for nothing, and takes it that the program has.
void free_unordered(const Block& block, const char* call);

}  // namespace cuda_on_cpu
