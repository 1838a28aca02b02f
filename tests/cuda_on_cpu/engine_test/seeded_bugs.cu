// Kernels with one bug each, run by seeded_bugs.cpp. The lines that the engine's report may name carry the kernel's
// name after "BUG". Most kernels run as one or two blocks of 64 threads over x[128] and y[128].

extern "C" {

__global__ void missing_syncthreads(float* y, const float* x) {
  __shared__ float tile[64];
  tile[threadIdx.x] = x[threadIdx.x];       // BUG missing_syncthreads
  y[threadIdx.x] = tile[63 - threadIdx.x];  // BUG missing_syncthreads
}

__global__ void missing_second_syncthreads(float* y, const float* x) {
  __shared__ float tile[64];
  for (int round = 0; round < 2; ++round) {
    tile[threadIdx.x] = x[round * 64 + threadIdx.x];  // BUG missing_second_syncthreads
    __syncthreads();
    y[round * 64 + threadIdx.x] = tile[63 - threadIdx.x];  // BUG missing_second_syncthreads
  }
}

__global__ void missing_syncwarp(float* y, const float* x) {
  __shared__ float tile[64];
  tile[threadIdx.x] = x[threadIdx.x];      // BUG missing_syncwarp
  y[threadIdx.x] = tile[threadIdx.x ^ 1];  // BUG missing_syncwarp
}

__global__ void syncwarp_of_too_few(float* y, const float* x) {
  __shared__ float tile[64];
  tile[threadIdx.x] = x[threadIdx.x];  // BUG syncwarp_of_too_few
  if (threadIdx.x % 32 < 16) {
    __syncwarp(0xffff);
  } else {
    __syncwarp(0xffff0000);
  }
  y[threadIdx.x] = tile[threadIdx.x ^ 16];  // BUG syncwarp_of_too_few
}

// A shuffle does not order memory.
__global__ void shuffle_for_syncwarp(float* y, const float* x) {
  __shared__ float tile[64];
  tile[threadIdx.x] = x[threadIdx.x];  // BUG shuffle_for_syncwarp
  const float other = __shfl_xor_sync(0xffffffffu, x[threadIdx.x], 1);
  y[threadIdx.x] = tile[threadIdx.x ^ 1] + other;  // BUG shuffle_for_syncwarp
}

// This is enough within a warp, but the neighbour is in the other warp.
__global__ void syncwarp_for_syncthreads(float* y, const float* x) {
  __shared__ float tile[64];
  tile[threadIdx.x] = x[threadIdx.x];  // BUG syncwarp_for_syncthreads
  __syncwarp();
  y[threadIdx.x] = tile[threadIdx.x ^ 32];  // BUG syncwarp_for_syncthreads
}

__global__ void write_write_race(float* y, const float* x) {
  y[0] = x[threadIdx.x];  // BUG write_write_race
}

__global__ void cross_block_write(float* y, const float* x) {
  if (threadIdx.x == 0) y[0] = x[blockIdx.x];  // BUG cross_block_write
}

__global__ void cross_block_read(float* y, const float* x) {
  const unsigned int i = blockIdx.x * 64 + threadIdx.x;
  y[i] = x[i];  // BUG cross_block_read
  __threadfence();
  __syncthreads();
  y[i] += y[i ^ 64];  // BUG cross_block_read
}

__global__ void non_atomic_update(int* count) {
  *count += 1;  // BUG non_atomic_update
}

__global__ void half_atomic_update(int* count) {
  if (threadIdx.x % 2 == 0) {
    atomicAdd(count, 1);  // BUG half_atomic_update
  } else {
    *count += 1;  // BUG half_atomic_update
  }
}

// The last block adds up the other blocks' results, but nothing makes them visible to it.
__global__ void missing_threadfence(float* y, const float* x, int* tickets) {
  __shared__ bool last;
  if (threadIdx.x == 0) {
    y[blockIdx.x] = x[blockIdx.x];  // BUG missing_threadfence
    last = atomicAdd(tickets, 1) == static_cast<int>(gridDim.x) - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) y[2] = y[0] + y[1];  // BUG missing_threadfence
}

// The block that comes last also reads the other's element. The kernels below differ in how they publish it.

__global__ void fence_for_the_block_only(float* y, const float* x, int* tickets) {
  y[blockIdx.x] = x[blockIdx.x];  // BUG fence_for_the_block_only
  __threadfence_block();
  if (atomicAdd(tickets, 1) == static_cast<int>(gridDim.x) - 1) {
    __threadfence();
    y[2] = y[0] + y[1];  // BUG fence_for_the_block_only
  }
}

__global__ void fence_before_the_data(float* y, const float* x, int* tickets) {
  __threadfence();
  y[blockIdx.x] = x[blockIdx.x];  // BUG fence_before_the_data
  if (atomicAdd(tickets, 1) == static_cast<int>(gridDim.x) - 1) {
    __threadfence();
    y[2] = y[0] + y[1];  // BUG fence_before_the_data
  }
}

__global__ void missing_fence_of_the_reader(float* y, const float* x, int* tickets) {
  y[blockIdx.x] = x[blockIdx.x];  // BUG missing_fence_of_the_reader
  __threadfence();
  if (atomicAdd(tickets, 1) == static_cast<int>(gridDim.x) - 1) {
    y[2] = y[0] + y[1];  // BUG missing_fence_of_the_reader
  }
}

__global__ void published_once_written_twice(float* y, const float* x, int* tickets) {
  y[blockIdx.x] = x[blockIdx.x];
  __threadfence();
  atomicAdd(tickets, 1);
  y[blockIdx.x] = 2.0f * x[blockIdx.x];  // BUG published_once_written_twice
  if (atomicAdd(tickets, 1) == 2 * static_cast<int>(gridDim.x) - 1) {
    __threadfence();
    y[2] = y[0] + y[1];  // BUG published_once_written_twice
  }
}

// Thread 0 fences before the barrier, so its fence does not cover the other threads' elements.
__global__ void fence_before_the_barrier(float* y, const float* x, int* tickets) {
  if (threadIdx.x == 0) __threadfence();
  y[blockIdx.x * 32 + threadIdx.x] = x[threadIdx.x];  // BUG fence_before_the_barrier
  __syncthreads();
  if (threadIdx.x == 0 && atomicAdd(tickets, 1) == static_cast<int>(gridDim.x) - 1) {
    __threadfence();
    for (unsigned int i = 1; i < 32 * gridDim.x; ++i) y[64] += y[i];  // BUG fence_before_the_barrier
  }
}

// An acquire is not a release, and this one reads another word.
__global__ void acquire_for_a_release(float* y, const float* x, int* tickets) {
  int other, before;
  y[blockIdx.x] = x[blockIdx.x];  // BUG acquire_for_a_release
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(other) : "l"(tickets + 1) : "memory");
  asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(tickets) : "memory");
  if (before == static_cast<int>(gridDim.x) - 1) {
    __threadfence();
    y[2] = y[0] + y[1];  // BUG acquire_for_a_release
  }
}

__global__ void release_for_an_acquire(float* y, const float* x, int* tickets) {
  int before;
  y[blockIdx.x] = x[blockIdx.x];  // BUG release_for_an_acquire
  asm volatile("atom.release.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(tickets) : "memory");
  if (before == static_cast<int>(gridDim.x) - 1) {
    asm volatile("st.release.gpu.global.u32 [%0], 1;" ::"l"(tickets + 1) : "memory");
    y[2] = y[0] + y[1];  // BUG release_for_an_acquire
  }
}

// In the next kernels, the first block publishes to the second, which passes it on to the third.

// The second block passes it on through a thread that fenced before it knew.
__global__ void passed_on_by_an_older_fence(float* y, const float*, int* tickets) {
  __shared__ int turn;
  volatile int* raised = tickets + 1;
  if (threadIdx.x == 0) turn = atomicAdd(tickets, 1);
  if (threadIdx.x == 1) asm volatile("fence.acq_rel.gpu;" ::: "memory");
  __syncthreads();
  if (turn == 0 && threadIdx.x == 0) {
    y[0] = 7.0f;  // BUG passed_on_by_an_older_fence
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
    raised[0] = 1;
  }
  if (turn == 1) {
    if (threadIdx.x == 0 && raised[0] == 1) asm volatile("fence.acq_rel.gpu;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 1) raised[1] = 1;
  }
  if (turn == 2 && threadIdx.x == 0 && raised[1] == 1) {
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
    y[1] = y[0];  // BUG passed_on_by_an_older_fence
  }
}

// The second block's fence covers that block only.
__global__ void passed_on_by_a_fence_of_the_block(float* y, const float*, int* tickets) {
  volatile int* raised = tickets + 1;
  const int turn = atomicAdd(tickets, 1);
  if (turn == 0) {
    y[0] = 7.0f;  // BUG passed_on_by_a_fence_of_the_block
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
    raised[0] = 1;
  } else if (turn == 1 && raised[0] == 1) {
    asm volatile("fence.acq_rel.cta;" ::: "memory");
    raised[1] = 1;
  } else if (turn == 2 && raised[1] == 1) {
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
    y[1] = y[0];  // BUG passed_on_by_a_fence_of_the_block
  }
}

// The atomic by the block's first thread is ordered after the other block's, but must not replace it in the race check.
__global__ void hidden_by_an_atomic_of_the_block(float*, const float*, int* tickets) {
  __shared__ volatile int done;
  volatile int* raised = tickets + 1;
  if (threadIdx.x == 0) done = 0;
  __syncthreads();
  if (threadIdx.x == 0) {
    const int turn = atomicAdd(tickets, 1);
    if (turn == 0) {
      atomicAdd(tickets + 2, 1);  // BUG hidden_by_an_atomic_of_the_block
      asm volatile("fence.acq_rel.gpu;" ::: "memory");
      *raised = 1;
    } else if (*raised == 1) {
      asm volatile("fence.acq_rel.gpu;" ::: "memory");
      atomicAdd_block(tickets + 2, 1);
    }
    done = 1 + turn;
  } else if (threadIdx.x == 32) {
    while (done == 0) {
    }
    if (done == 2) atomicAdd_block(tickets + 2, 1);  // BUG hidden_by_an_atomic_of_the_block
  }
}

// A compare-and-swap that fails publishes nothing.
__global__ void published_by_a_swap_that_fails(float* y, const float*, int* tickets) {
  volatile int* raised = tickets + 1;
  if (atomicAdd(tickets, 1) == 0) {
    *raised = 1;
    y[0] = 7.0f;  // BUG published_by_a_swap_that_fails
    __threadfence();
    y[2] = static_cast<float>(atomicCAS(tickets + 1, 5, 6));
  } else if (*raised == 1) {
    __threadfence();
    y[1] = y[0];  // BUG published_by_a_swap_that_fails
  }
}

__global__ void atomics_of_two_sizes(float* y, const float*, int* tickets) {
  if (blockIdx.x == 0) {
    atomicAdd(tickets, 1);  // BUG atomics_of_two_sizes
  } else {
    y[1] = *reinterpret_cast<volatile char*>(tickets);  // BUG atomics_of_two_sizes
  }
}

__global__ void atomics_of_one_block(int* count) {
  atomicAdd_block(count, 1);  // BUG atomics_of_one_block
}

// The other block's atomics must not hide the store.
__global__ void zeroed_by_one_block(int* count) {
  if (blockIdx.x == 0 && threadIdx.x == 0) *count = 0;  // BUG zeroed_by_one_block
  __syncthreads();
  atomicAdd(count, 1);  // BUG zeroed_by_one_block
}

// Warp 1 has waited only for its own lanes, so thread 0 may not have read yet when warp 1 overwrites.
__global__ void overwritten_before_all_have_read(float* y, const float* x) {
  __shared__ float best;
  if (threadIdx.x == 0) best = x[0];
  __syncthreads();
  if (threadIdx.x == 0 || threadIdx.x >= 32) y[threadIdx.x] = best;  // BUG overwritten_before_all_have_read
  if (threadIdx.x >= 32) {
    __syncwarp();
    if (threadIdx.x == 32) best = x[1];  // BUG overwritten_before_all_have_read
  }
}

// Lane 1's read is ordered before lane 2's write, but lane 0's read is not.
__global__ void overwritten_before_the_first_lane_has_read(float* y, const float* x) {
  __shared__ float best;
  if (threadIdx.x == 0) best = x[0];
  __syncthreads();
  if (threadIdx.x < 3) y[threadIdx.x] = best;  // BUG overwritten_before_the_first_lane_has_read
  if (threadIdx.x == 1 || threadIdx.x == 2) {
    __syncwarp(6);
    if (threadIdx.x == 2) best = x[1];  // BUG overwritten_before_the_first_lane_has_read
  }
}

__global__ void missing_volatile_flag(float* y, int* flag) {
  if (threadIdx.x == 0) {
    y[0] = 1.0f;
    __threadfence();
    *flag = 1;  // BUG missing_volatile_flag
  } else if (threadIdx.x == 32) {
    y[1] = *flag == 1 ? y[0] : 0.0f;  // BUG missing_volatile_flag
  }
}

__global__ void out_of_bounds_read(float* y, const float* x) {
  y[threadIdx.x] = x[threadIdx.x + 65];  // BUG out_of_bounds_read
}

__global__ void out_of_bounds_write(float* y, const float* x) {
  y[static_cast<int>(threadIdx.x) - 1] = x[threadIdx.x];  // BUG out_of_bounds_write
}

__global__ void shared_out_of_bounds(float* y, const float* x) {
  extern __shared__ float dynamic[];
  dynamic[threadIdx.x + 1] = x[threadIdx.x];  // BUG shared_out_of_bounds
  y[threadIdx.x] = 0.0f;
}

__global__ void use_after_free(float* y, const float* x) {
  y[threadIdx.x] = x[threadIdx.x];  // BUG use_after_free
}

__global__ void misaligned(float* y, const char* x) {
  y[threadIdx.x] = *reinterpret_cast<const float*>(x + 1 + 4 * threadIdx.x);  // BUG misaligned
}

__global__ void host_pointer(float* y, const float* x) {
  y[threadIdx.x] = x[threadIdx.x];  // BUG host_pointer
}

__global__ void uninitialised_shared(float* y) {
  __shared__ float tile[65];
  tile[threadIdx.x] = 1.0f;
  __syncthreads();
  y[threadIdx.x] = tile[threadIdx.x + 1];  // BUG uninitialised_shared
}

__global__ void uninitialised_global(float* y, const float* fresh) {
  y[threadIdx.x] = fresh[threadIdx.x];  // BUG uninitialised_global
}

__global__ void partly_uninitialised(float* y, const float4* fresh) {
  const float4 all = fresh[0];  // BUG partly_uninitialised
  y[threadIdx.x] = all.x + all.w;
}

__global__ void barrier_after_exit(float* y, const float* x) {
  if (threadIdx.x >= 40) return;
  y[threadIdx.x] = x[threadIdx.x];
  __syncthreads();  // BUG barrier_after_exit
  y[threadIdx.x] += 1.0f;
}

__global__ void divergent_barriers(float* y, const float* x) {
  if (x[threadIdx.x] > 10.0f) {
    y[threadIdx.x] = 1.0f;
    __syncthreads();  // BUG divergent_barriers
    y[threadIdx.x] += 1.0f;
  } else {
    y[threadIdx.x] = 2.0f;
    __syncthreads();  // BUG divergent_barriers
    y[threadIdx.x] += 3.0f;
  }
}

__global__ void barrier_and_warp_deadlock(float* y, const float* x) {
  if (threadIdx.x == 0) {
    __syncthreads();  // BUG barrier_and_warp_deadlock
  } else if (threadIdx.x < 32) {
    __syncwarp();  // BUG barrier_and_warp_deadlock
  } else {
    __syncthreads();
  }
  y[threadIdx.x] = x[threadIdx.x];
}

__global__ void shuffle_with_exited_lane(float* y, const float* x) {
  const float own = x[threadIdx.x];
  if (threadIdx.x % 32 == 31) return;
  y[threadIdx.x] = __shfl_down_sync(0xffffffffu, own, 1);  // BUG shuffle_with_exited_lane
}

__global__ void mask_without_caller(float* y, const float* x) {
  y[threadIdx.x] = __shfl_sync(0xffffu, x[threadIdx.x], 0);  // BUG mask_without_caller
}

__global__ void divergent_shuffles(float* y, const float* x) {
  if (threadIdx.x % 2 == 0) {
    y[threadIdx.x] = __shfl_xor_sync(0xffffffffu, x[threadIdx.x], 1);  // BUG divergent_shuffles
  } else {
    y[threadIdx.x] = __shfl_xor_sync(0xffffffffu, x[threadIdx.x], 2) + 1.0f;  // BUG divergent_shuffles
  }
}

__global__ void product_with_exited_lane(float* y, const float* x) {
  float sum = x[threadIdx.x];
  if (threadIdx.x % 32 == 31) return;
  asm volatile(
      "{.reg .f32 s; mov.f32 s, 0f00000000; mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, s, s, s}, "
      "{%1, %1, %1, %1}, {%1, %1}, {%0, s, s, s};}"
      : "+f"(sum)
      : "r"(0));  // BUG product_with_exited_lane
  y[threadIdx.x] = sum;
}

__global__ void endless_loop(float* y) {
  volatile float* seen = y;
  while (seen[0] != 2.0f) {  // BUG endless_loop
  }
}

__global__ void waits_for_other_block(int* flag) {
  volatile int* seen = flag;
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    while (seen[1] == 0) {  // BUG waits_for_other_block
    }
    seen[0] = 1;
  } else if (threadIdx.x == 0) {
    while (seen[0] == 0) {  // BUG waits_for_other_block
    }
    seen[1] = 1;
  }
}

__global__ void trapping(float* y) {
  if (y[threadIdx.x] == 63.0f) __trap();  // BUG trapping
}

}  // extern "C"
