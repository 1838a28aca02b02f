#pragma once

namespace giro::cuda {

// Called by all threads of `blocks` blocks: whether this block is the last to get here. It then sees what the others
// wrote before. `arrivals` (CudaStream::arrivals) counts the blocks and is 0 again afterwards.
__device__ inline bool is_last_block(unsigned int* arrivals, unsigned int blocks) {
  __shared__ bool is_last;
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    __threadfence();
    is_last = atomicInc(arrivals, blocks - 1) == blocks - 1;
    __threadfence();
  }
  __syncthreads();
  return is_last;
}

}  // namespace giro::cuda
