#pragma once

#include <algorithm>
#include <cstdint>

#include <giro/runtime/stream.h>

#include "runtime/cuda/check.h"
#include "runtime/cuda/stream.h"
#include "runtime/temporary.h"

namespace giro::cuda {

// How many blocks cover n with `per_block` each. At most `most`, for kernels that stride over the rest.
inline unsigned int blocks_for(std::int64_t n, std::int64_t per_block, std::int64_t most = 0x7fffffff) {
  return static_cast<unsigned int>(std::clamp<std::int64_t>((n + per_block - 1) / per_block, 1, most));
}

constexpr int kForEachThreads = 256;

template <class F>
__global__ void __launch_bounds__(kForEachThreads) for_each_kernel(std::int64_t n, F f) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) f(i);
}

// Runs the functors of kernels/host_device, one thread per index. Launches nothing for n = 0.
template <class F>
void for_each(const Stream& stream, std::int64_t n, const F& f) {
  if (n == 0) return;
  for_each_kernel<<<blocks_for(n, kForEachThreads), kForEachThreads, 0, handle(stream)>>>(n, f);
  check_launch("for_each_kernel");
}

constexpr unsigned int kAllLanes = 0xffffffffu;

// Joins a value across each kAcross neighbouring lanes of a warp.
template <int kAcross, class Join>
__device__ inline float reduce_lanes(float value, const Join& join) {
#pragma unroll
  for (int offset = kAcross / 2; offset > 0; offset /= 2) {
    value = join(value, __shfl_xor_sync(kAllLanes, value, offset));
  }
  return value;
}

// Calls f(Unit()) for the widest unit of 16, 4 or 1 bytes that divides all addresses and sizes joined in `together` by
// |.
template <class F>
void with_unit(std::uintptr_t together, const F& f) {
  if (together % sizeof(uint4) == 0) {
    f(uint4{});
  } else if (together % sizeof(std::uint32_t) == 0) {
    f(std::uint32_t{});
  } else {
    f(std::uint8_t{});
  }
}

}  // namespace giro::cuda
