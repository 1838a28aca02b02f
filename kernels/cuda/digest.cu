#include <cub/block/block_reduce.cuh>

#include <cstdint>

#include "kernels/cuda/kernel_launch.cuh"
#include "kernels/host_device/digest_term.h"
#include "kernels/ops.h"

namespace giro::cuda {
namespace {

constexpr int kDigestThreads = 256;
constexpr std::int64_t kPerBlock = 16 * kDigestThreads;  // words per block, up to kMaxBlocks
constexpr std::int64_t kMaxBlocks = 1024;

// out[block] = the sum of the block's share of the words, or of their terms.
template <bool kTerms>
__global__ void digest_kernel(std::uint64_t* out, const std::uint64_t* words, std::int64_t count) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kDigestThreads;
  std::uint64_t sum = 0;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kDigestThreads + threadIdx.x; i < count; i += stride) {
    sum += kTerms ? host_device::digest_term(words[i], i) : words[i];
  }
  using Reduce = cub::BlockReduce<std::uint64_t, kDigestThreads>;
  __shared__ typename Reduce::TempStorage storage;
  sum = Reduce(storage).Sum(sum);
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

}  // namespace

void run(const ops::Digest& op, const Stream& stream) {
  const std::int64_t count = op.bytes.count() / 8;
  const unsigned int blocks = blocks_for(count, kPerBlock, kMaxBlocks);
  const Buffer buffer = stream.allocate(blocks * sizeof(std::uint64_t));
  auto* const partial = static_cast<std::uint64_t*>(buffer.data());
  digest_kernel<true><<<blocks, kDigestThreads, 0, handle(stream)>>>(
      partial, static_cast<const std::uint64_t*>(op.bytes.raw()), count);
  check_launch("digest_kernel");
  digest_kernel<false>
      <<<1, kDigestThreads, 0, handle(stream)>>>(static_cast<std::uint64_t*>(op.digest.raw()), partial, blocks);
  check_launch("digest_kernel");
}

}  // namespace giro::cuda
