// Correct kernels that use what the engine could get wrong or report by mistake.

#include <cooperative_groups.h>

#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/warp/warp_reduce.cuh>

extern "C" {

__constant__ float weights[4] = {1.0f, 2.0f, 3.0f, 4.0f};

__global__ void weighted(float* y) { y[threadIdx.x] = weights[threadIdx.x % 4]; }

__global__ void reverse_through_shared(float* y, const float* x) {
  extern __shared__ float tile[];
  tile[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}

__global__ void neighbours_through_syncwarp(float* y, const float* x) {
  __shared__ float tile[64];
  tile[threadIdx.x] = x[threadIdx.x];
  __syncwarp();
  const float other = tile[threadIdx.x ^ 1];
  __syncwarp();
  tile[threadIdx.x] = other;
  if (threadIdx.x % 32 < 16) {
    __syncwarp(0xffff);
    y[threadIdx.x] = tile[threadIdx.x ^ 2];
  } else {
    __syncwarp(0xffff0000);
    y[threadIdx.x] = tile[threadIdx.x ^ 2];
  }
}

// One block of each launch adds up the results of all blocks.
__global__ void last_block_sums(float* y, float* partial, const float* x, unsigned int* tickets) {
  using Reduce = cub::BlockReduce<float, 64>;
  __shared__ typename Reduce::TempStorage storage;
  __shared__ bool last;
  const float sum = Reduce(storage).Sum(x[blockIdx.x * 64 + threadIdx.x]);
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = sum;
    __threadfence();
    last = atomicInc(tickets, gridDim.x - 1) == gridDim.x - 1;
    __threadfence();
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    float total = 0.0f;
    for (unsigned int b = 0; b < gridDim.x; ++b) total += partial[b];
    *y = total;
  }
}

__global__ void scan_block(int* y, const int* x) {
  using Scan = cub::BlockScan<int, 64>;
  __shared__ typename Scan::TempStorage storage;
  int sum;
  Scan(storage).InclusiveSum(x[threadIdx.x], sum);
  y[threadIdx.x] = sum;
}

__global__ void every_warp_operation(unsigned int* y) {
  const unsigned int lane = threadIdx.x % 32, all = 0xffffffffu;
  unsigned int* mine = y + threadIdx.x * 12;
  mine[0] = __shfl_up_sync(all, lane, 3);
  mine[1] = __shfl_down_sync(all, lane, 3, 8);
  mine[2] = __shfl_xor_sync(all, lane, 5);
  mine[3] = __shfl_sync(all, lane, 9, 16);
  mine[4] = __ballot_sync(all, lane % 3 == 0);
  mine[5] = __any_sync(all, lane == 31) * 2 + __all_sync(all, lane == 31);
  mine[6] = __reduce_add_sync(all, lane);
  mine[7] = __reduce_max_sync(all, lane ^ 5);
  mine[8] = __match_any_sync(all, lane / 4);
  int same;
  mine[9] = __match_all_sync(all, 7, &same) == all && same;
  mine[10] = __syncthreads_count(lane < 5);
  mine[11] = __syncthreads_or(lane == 40) * 2 + __syncthreads_and(lane < 40);
}

__global__ void atomics(int* y, float* sums) {
  const int i = static_cast<int>(threadIdx.x);
  atomicAdd(y + 0, i);
  atomicMax(y + 1, i);
  atomicMin(y + 2, -i);
  atomicOr(y + 3, 1 << (i % 8));
  atomicXor(y + 4, i);
  atomicAdd(sums, 0.5f);
  int seen = y[5 + 64 + i];
  while (true) {  // a counter by compare-and-swap
    const int before = atomicCAS(y + 5, seen, seen + 1);
    if (before == seen) break;
    seen = before;
  }
}

// A warp waits for another warp's flag. The engine lets the other warp run meanwhile.
__global__ void flag_between_warps(float* y, int* flag) {
  volatile int* raised = flag;
  if (threadIdx.x == 0) {
    y[0] = 5.0f;
    __threadfence();
    *raised = 1;
  } else if (threadIdx.x == 32) {
    while (*raised == 0) {
    }
    __threadfence();
    y[1] = y[0];
  }
}

// One lane publishes all lanes' elements. This stays within the block, so a fence of the block is enough.
__global__ void published_by_one_lane(float* y, const float* x, int* flag) {
  volatile int* raised = flag;
  if (threadIdx.x < 32) {
    y[threadIdx.x] = x[threadIdx.x];
    __syncwarp();
    if (threadIdx.x == 0) {
      __threadfence_block();
      *raised = 1;
    }
  } else {
    if (threadIdx.x == 32) {
      while (*raised == 0) {
      }
      __threadfence_block();
    }
    __syncwarp();
    y[threadIdx.x] = y[threadIdx.x - 32];
  }
}

// Three blocks, in the order in which they run: the first publishes to the second, which passes it on to the third.
__global__ void told_by_another(float* y, int* tickets, int* flags) {
  if (threadIdx.x > 0) return;
  volatile int* raised = flags;
  const int turn = atomicAdd(tickets, 1);
  if (turn == 0) y[0] = 7.0f;
  if (turn > 0 && raised[turn - 1] == 1) {
    __threadfence();
    if (turn == 2) y[1] = y[0];
  }
  __threadfence();
  raised[turn] = 1;
}

// __threadfence() fences are ordered among themselves: each thread fences its writes, then one publishes for all of
// them. After one thread has read this, each thread fences for itself.
__global__ void fences_around_barriers(float* y, const float* x, int* tickets) {
  __shared__ bool last;
  y[blockIdx.x * 64 + threadIdx.x] = x[threadIdx.x];
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(tickets, 1) == static_cast<int>(gridDim.x) - 1;
  __syncthreads();
  if (last) {
    __threadfence();
    if (threadIdx.x == 5) y[128] = y[0] + y[127];
  }
}

// Some lanes of a warp synchronise. The first publishes for all of them, and passes on what it learns.
__global__ void published_for_half_a_warp(float* y, const float* x, int* tickets) {
  if (threadIdx.x >= 16) return;
  y[blockIdx.x * 16 + threadIdx.x] = x[threadIdx.x];
  __syncwarp(0xffff);
  int turn = 0;
  if (threadIdx.x == 0) {
    __threadfence();
    turn = atomicAdd(tickets, 1);
    __threadfence();
  }
  __syncwarp(0xffff);
  turn = __shfl_sync(0xffff, turn, 0);
  if (turn == 1 && threadIdx.x == 3) y[32] = y[15] + y[31];
}

__global__ void local_array(int* y, const int* x) {
  int digits[16];
  for (int i = 0; i < 16; ++i) digits[i] = x[i];
  y[threadIdx.x] = digits[digits[threadIdx.x % 16] % 16];
}

__global__ void math(float* y, const float* x) {
  float* mine = y + threadIdx.x * 16;
  const float a = x[threadIdx.x];
  mine[0] = expf(a);
  mine[1] = logf(fabsf(a) + 1e-3f);
  mine[2] = tanhf(a);
  mine[3] = powf(fabsf(a), 1.7f);
  mine[4] = sqrtf(fabsf(a));
  mine[5] = rsqrtf(fabsf(a) + 1e-3f);
  mine[6] = sinf(a * 100.0f);
  mine[7] = cosf(a * 1e6f);
  mine[8] = erff(a);
  mine[9] = 1.0f / (a + 10.0f);
  mine[10] = log1pf(fabsf(a));
  mine[11] = expm1f(a);
  mine[12] = static_cast<float>(pow(static_cast<double>(fabsf(a)), 2.3));
  mine[13] = static_cast<float>(exp(static_cast<double>(a)) + log(fabs(static_cast<double>(a)) + 1.0));
  mine[14] = fmodf(a, 0.7f);
  mine[15] = rintf(a * 3.0f) + truncf(a * 3.0f) + floorf(a * 3.0f) + ceilf(a * 3.0f);
}

__global__ void integers(long long* y, const long long* x) {
  long long* mine = y + threadIdx.x * 12;
  const long long a = x[2 * threadIdx.x], b = x[2 * threadIdx.x + 1];
  const int i = static_cast<int>(a), j = static_cast<int>(b);
  mine[0] = a / b;
  mine[1] = a % b;
  mine[2] = __mul64hi(a, b);
  mine[3] = i >> (j & 31);
  mine[4] = static_cast<long long>(static_cast<unsigned int>(i) >> (j & 31));
  mine[5] = __popcll(a) * 100 + __clz(i) + __ffs(j) * 10000;
  mine[6] = __brev(static_cast<unsigned int>(i));
  mine[7] = __byte_perm(i, j, 0x6240);
  mine[8] = __funnelshift_l(i, j, 7);
  mine[9] = static_cast<short>(i) * static_cast<short>(j);
  mine[10] = static_cast<signed char>(i) + static_cast<unsigned char>(j);
  mine[11] = static_cast<long long>(static_cast<double>(a) * 1.5);
}

}  // extern "C"
