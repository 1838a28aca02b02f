#pragma once

#include <cstdint>
#include <vector>

#include <giro/runtime/tensor.h>

namespace giro::detail {

struct HistogramBuckets {
  // Left edge, right edge and count of each, one after the other.
  std::vector<double> rows;
  std::int64_t not_finite = 0;  // elements that are in none
};

// The elements of a tensor on the host in `count` buckets of equal width from the least of them to the greatest, which
// is in the last. As TensorBoard's own writers have it, all of them are in the last bucket where they are equal, and
// without elements the rows are zeros.
HistogramBuckets histogram_buckets(const Tensor& tensor, std::int64_t count);

}  // namespace giro::detail
