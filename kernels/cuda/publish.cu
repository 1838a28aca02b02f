#include "kernels/functors/publish.h"

#include "kernels/internal/backends.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/stream.h"

namespace giro::cuda {
namespace {

constexpr int kWarp = 32;
static_assert(RowPart::kMaxColumns <= kWarp, "one lane a column");

// The host reads `published` first and then the row: every lane's value has to be there before it. A fence orders the
// later stores of its own thread alone, after all that this thread has seen, through a barrier too: so the thread that
// stores the count makes it, after the warp's barrier, and fences of the other lanes would add nothing.
__global__ void publish_columns_kernel(RowRing ring, std::int64_t* row, RowPart part) {
  const int lane = static_cast<int>(threadIdx.x);
  const std::int64_t number = *row;
  if (lane == 0) part.count();
  __syncwarp();
  if (lane < part.columns) {
    volatile double* values = ring.values + (number % ring.capacity) * part.row_columns + part.first;
    values[lane] = part.read(lane);
  }
  if (!part.ends_row()) return;
  __syncwarp();
  if (lane == 0) {
    *row = number + 1;
    __threadfence_system();
    *static_cast<volatile std::int64_t*>(ring.published) = number + 1;
  }
}

}  // namespace

void publish_columns(const RowRing& ring, const Tensor& row, const RowPart& part, const Stream& stream) {
  publish_columns_kernel<<<1, kWarp, 0, handle(stream)>>>(ring, row.data<std::int64_t>(), part);
  check_launch("publish_columns_kernel");
}

}  // namespace giro::cuda
