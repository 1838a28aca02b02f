#pragma once

#include <vector>

#include "kernels/internal/ops.h"

namespace giro {

// Products of contiguous matrices: out (B, M, N); a and b have B matrices each, or one for all products.
struct StridedBatch {
  Tensor out, a, b;
};

// Splits the op into batches that the libraries accept; several if a and b broadcast along different axes.
std::vector<StridedBatch> strided_batches(const ops::Matmul& op);

}  // namespace giro
