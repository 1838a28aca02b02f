#include "kernels/host_device/cumulative_functions.h"

#include <cub/block/block_scan.cuh>

#include <cstdint>

#include "kernels/cuda/kernel_launch.cuh"
#include "kernels/ops.h"

namespace giro::cuda {
namespace {

// One block per row, in pieces of one element per thread. cub::DeviceScan would split a row over blocks and sum in an
// order that depends on which block finishes first.
template <int kThreads, class T, class Op>
__global__ void __launch_bounds__(kThreads)
    cumulative_kernel(T* y, const T* x, std::int64_t rows, std::int64_t length, bool reversed, Op op) {
  using Wide = host_device::Wide<T>;
  using Scan = cub::BlockScan<Wide, kThreads>;
  __shared__ typename Scan::TempStorage storage;
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    Wide before = Op::kNeutral;  // result of the earlier pieces
    for (std::int64_t piece = 0; piece < length; piece += kThreads) {
      const std::int64_t i = piece + threadIdx.x;
      const std::int64_t at = row * length + (reversed ? length - 1 - i : i);
      Wide value = i < length ? static_cast<Wide>(x[at]) : Wide(Op::kNeutral), all;
      Scan(storage).InclusiveScan(value, value, op, all);
      if (i < length) y[at] = host_device::narrowed<T>(op(before, value));
      before = op(before, all);
      __syncthreads();  // before the storage is reused
    }
  }
}

}  // namespace

void run(const ops::Cumulative& op, const Stream& stream) {
  if (op.x.count() == 0) return;
  const std::int64_t rows = op.x.shape()[0], length = op.x.shape()[1];
  host_device::with_cumulative(op.x.dtype(), op.of, [&]<class T, class Join>(host_device::Type<T>, Join join) {
    const auto launch = [&]<int kThreads>(std::integral_constant<int, kThreads>) {
      cumulative_kernel<kThreads><<<blocks_for(rows, 1), kThreads, 0, handle(stream)>>>(
          op.y.data<T>(), op.x.data<T>(), rows, length, op.reversed, join);
      check_launch("cumulative_kernel");
    };
    length <= 128 ? launch(std::integral_constant<int, 128>{}) : launch(std::integral_constant<int, 1024>{});
  });
}

}  // namespace giro::cuda
