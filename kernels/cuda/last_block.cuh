#pragma once

// Code, or its text where expression_prelude.cpp includes this file.
#ifndef GIRO_DEVICE_CODE
#define GIRO_DEVICE_CODE(...) __VA_ARGS__
#endif

// giro::is_last_block, called by all threads of `blocks` blocks: whether this block is the last to arrive. If so, it
// sees everything the others wrote before. `arrivals` (CudaStream::arrivals) counts the blocks and is then 0 again.
//
// The first fence releases the writes that the barrier ordered before it; the second acquires those of the blocks that
// arrived earlier. Blocks are one-dimensional.
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
