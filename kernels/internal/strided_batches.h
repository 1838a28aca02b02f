#pragma once

#include <vector>

#include "kernels/internal/ops.h"

namespace giro {

// Products of matrices that lie one behind the other: out (B, M, N), a and b of B matrices, or of one for all products.
struct StridedBatch {
  Tensor out, a, b;
};

// The op as batches that its libraries take. There are several where a and b broadcast along different axes.
std::vector<StridedBatch> strided_batches(const ops::Matmul& op);

}  // namespace giro
