#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <giro/callbacks/metric_writer.h>

// What the MetricWriters of text have in common.
namespace giro::detail {

// Error(invalid_argument), naming the writer, for a step below 0 and for an empty tag.
template <class Tagged>
void expect_step_and_tags(const char* writer, std::int64_t step, const Tagged& tagged);
[[noreturn]] void refuse_step(const char* writer, std::int64_t step);
[[noreturn]] void refuse_tag(const char* writer);
[[noreturn]] void refuse_closed(const char* writer);

template <class Tagged>
void expect_step_and_tags(const char* writer, std::int64_t step, const Tagged& tagged) {
  if (step < 0) refuse_step(writer, step);
  for (const auto& [tag, value] : tagged) {
    if (tag.empty()) refuse_tag(writer);
  }
}

// How many elements lie in each of the buckets between the edges, of which there is one more. An element at the last
// edge lies in the last bucket.
struct Histogram {
  std::vector<double> edges;
  std::vector<std::int64_t> counts;
};
// As TensorBoard's: 30 buckets of equal width from the least to the largest element, or one of width 1 around them
// where they are alike; none where there are no elements. Elements that are not finite are left out.
Histogram histogram_of(const HostArray& array);

// "true", "0.001" or a text as it is.
std::string text_of(const HParam& hparam);

}  // namespace giro::detail
