#pragma once

#include <cstdint>
#include <vector>

#include <giro/runtime/host_array.h>
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

// The edges of the buckets, one more than buckets, and the number of elements in each bucket. An element at the last
// edge is in the last bucket.
struct Histogram {
  std::vector<double> edges;
  std::vector<std::int64_t> counts;
};
// As TensorBoard's: 30 buckets of equal width from the smallest to the largest element, or one of width 1 around them
// if they are nearly equal; none without elements. Elements that are not finite are left out.
Histogram histogram_of(const HostArray& array);

}  // namespace giro::detail
