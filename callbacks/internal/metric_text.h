#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <giro/callbacks/metric_writer.h>

// Shared by the MetricWriters.
namespace giro::detail {

// Error(invalid_argument), naming the writer, if it is closed.
void expect_open(const std::string& writer, bool is_open);
// The same, and for a step below 0 and an empty tag.
void expect_writable(const std::string& writer, bool is_open, const Record& record);

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
