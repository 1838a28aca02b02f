#pragma once

#include "kernels/functors/publish.h"

namespace giro::cuda {

inline constexpr int kPublishWarp = 32;
static_assert(RowPart::kMaxColumns <= kPublishWarp, "one lane a column");

// For one whole warp. The host reads `published` first and then the row: every lane's value has to be there before it.
// A fence orders the later stores of its own thread alone, after all that this thread has seen, through a barrier too:
// so the thread that stores the count makes it, after the warp's barrier, and fences of the other lanes would add
// nothing.
__device__ inline void publish(const RowRing& ring, std::int64_t* row, const RowPart& part, int lane) {
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

}  // namespace giro::cuda
