#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <giro/callbacks/metric_writer.h>

// Shared by the MetricWriters that write text.
namespace giro::detail {

// Error(invalid_argument), naming the writer, for a step below 0 and for an empty tag.
template <class Tagged>
void expect_step_and_tags(const char* writer, std::int64_t step, const Tagged& tagged);
[[noreturn]] void reject_step(const char* writer, std::int64_t step);
[[noreturn]] void reject_tag(const char* writer);
[[noreturn]] void reject_closed(const char* writer);

template <class Tagged>
void expect_step_and_tags(const char* writer, std::int64_t step, const Tagged& tagged) {
  if (step < 0) reject_step(writer, step);
  for (const auto& [tag, value] : tagged) {
    if (tag.empty()) reject_tag(writer);
  }
}

// The edges of the buckets, one more than buckets, and the number of elements in each bucket. An element at the last
// edge is in the last bucket.
struct Histogram {
  std::vector<double> edges;
  std::vector<std::int64_t> counts;
};
// As TensorBoard's: 30 buckets of equal width from the smallest to the largest element, or one of width 1 around them
// if they are nearly equal; none without elements. Elements that are not finite are left out.
Histogram histogram_of(const HostArray& array);

// "true", "0.001", or the text itself.
std::string text_of(const HParam& hparam);

}  // namespace giro::detail
