#pragma once

// Code, or the text of it where expression_prelude.cpp includes this file.
#ifndef GIRO_DEVICE_CODE
#define GIRO_DEVICE_CODE(...) __VA_ARGS__
#endif

// giro::is_last_block, called by all threads of `blocks` blocks: whether this block is the last to get here. It then
// sees what the others wrote before. `arrivals` (CudaStream::arrivals) counts the blocks and is 0 again afterwards.
//
// The first fence releases what a barrier has put before it, and the second acquires the same of the blocks that came
// earlier. Blocks have one dimension.
// clang-format off
GIRO_DEVICE_CODE(namespace giro {
__device__ inline bool is_last_block(unsigned int* arrivals, unsigned int blocks) {
  __shared__ bool is_last;
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
    const unsigned int before = atomicInc(arrivals, blocks - 1);
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
    is_last = before == blocks - 1;
  }
  __syncthreads();
  return is_last;
}
})
