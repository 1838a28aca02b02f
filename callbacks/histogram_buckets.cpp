#include "callbacks/histogram_buckets.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "runtime/elements.h"

namespace giro::detail {
namespace {

// Calls f(element) for each finite element of a host tensor, in order.
template <class F>
void for_each_finite(const Tensor& tensor, F&& f) {
  with_elements(tensor, [&](const auto* elements) {
    for (std::int64_t i = 0; i < tensor.count(); ++i) {
      const auto element = static_cast<double>(elements[i]);
      if (std::isfinite(element)) f(element);
    }
  });
}

constexpr std::size_t kBuckets = 30;

}  // namespace

HistogramBuckets histogram_buckets(const Tensor& tensor, std::int64_t count) {
  HistogramBuckets result{std::vector<double>(3 * static_cast<std::size_t>(count)), tensor.count()};
  double least = std::numeric_limits<double>::infinity(), greatest = -least;
  for_each_finite(tensor, [&](double value) {
    least = std::min(least, value);
    greatest = std::max(greatest, value);
    --result.not_finite;
  });
  if (result.not_finite == tensor.count()) return result;

  for (std::int64_t bucket = 0; bucket < count; ++bucket) {
    double* row = &result.rows[3 * static_cast<std::size_t>(bucket)];
    const auto edge = [&](std::int64_t i) {
      return std::lerp(least, greatest, static_cast<double>(i) / static_cast<double>(count));
    };
    row[0] = edge(bucket);
    row[1] = edge(bucket + 1);
  }
  // Halves the values where the range would overflow.
  const double scale = std::isinf(greatest - least) ? 0.5 : 1;
  const double range = greatest * scale - least * scale;
  for_each_finite(tensor, [&](double value) {
    const double part = range > 0 ? (value * scale - least * scale) / range : 1;
    const auto bucket = std::min(static_cast<std::int64_t>(part * static_cast<double>(count)), count - 1);
    result.rows[3 * static_cast<std::size_t>(bucket) + 2] += 1;
  });
  return result;
}

Histogram histogram_of(const HostArray& array) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  std::int64_t count = 0;
  for_each_finite(array.tensor(), [&](double number) {
    low = std::min(low, number);
    if (number >= high) high = number;  // of 0 and -0, the last
    ++count;
  });
  if (count == 0) return {};
  // numpy.isclose
  if (high - low <= 1e-8 + 1e-5 * std::abs(low)) return {{high - 0.5, high + 0.5}, {count}};
  Histogram histogram;
  for (std::size_t i = 0; i <= kBuckets; ++i) {
    histogram.edges.push_back(i == kBuckets ? high : low + (high - low) * static_cast<double>(i) / kBuckets);
  }
  histogram.counts.resize(kBuckets);
  for_each_finite(array.tensor(), [&](double number) {
    const auto after = std::upper_bound(histogram.edges.begin() + 1, histogram.edges.end() - 1, number);
    ++histogram.counts[static_cast<std::size_t>(after - histogram.edges.begin()) - 1];
  });
  return histogram;
}

}  // namespace giro::detail
