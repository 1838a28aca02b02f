#include "kernels/cuda/publish.cuh"
#include "kernels/internal/backends.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/stream.h"

namespace giro::cuda {
namespace {

__global__ void publish_columns_kernel(RowRing ring, std::int64_t* row, RowPart part) {
  publish(ring, row, part, static_cast<int>(threadIdx.x));
}

}  // namespace

void publish_columns(const RowRing& ring, const Tensor& row, const RowPart& part, const Stream& stream) {
  publish_columns_kernel<<<1, kPublishWarp, 0, handle(stream)>>>(ring, row.data<std::int64_t>(), part);
  check_launch("publish_columns_kernel");
}

}  // namespace giro::cuda
