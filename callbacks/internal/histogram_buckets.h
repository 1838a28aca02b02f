#pragma once

#include <cstdint>
#include <vector>

#include <giro/runtime/tensor.h>

namespace giro::detail {

struct HistogramBuckets {
  // Left edge, right edge and count of each bucket, in order.
  std::vector<double> rows;
  std::int64_t not_finite = 0;  // elements in no bucket
};

// Counts the elements of a host tensor in `count` buckets of equal width from the smallest to the largest element,
// which is in the last bucket. As in TensorBoard's own writers, equal elements are all in the last bucket, and without
// elements the rows are zeros.
HistogramBuckets histogram_buckets(const Tensor& tensor, std::int64_t count);

}  // namespace giro::detail
