#include "callbacks/histogram_buckets.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include <giro/runtime/stream.h>

#include "kernels/elementwise.h"
#include "runtime/elements.h"

namespace giro::detail {
namespace {

template <class T>
HistogramBuckets buckets_of(const T* elements, std::int64_t size, std::int64_t count) {
  HistogramBuckets result;
  result.rows.resize(3 * static_cast<std::size_t>(count));
  double least = std::numeric_limits<double>::infinity(), greatest = -least;
  for (std::int64_t i = 0; i < size; ++i) {
    const auto value = static_cast<double>(elements[i]);
    if (!std::isfinite(value)) {
      ++result.not_finite;
      continue;
    }
    least = std::min(least, value);
    greatest = std::max(greatest, value);
  }
  if (result.not_finite == size) return result;

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
  for (std::int64_t i = 0; i < size; ++i) {
    const auto value = static_cast<double>(elements[i]);
    if (!std::isfinite(value)) continue;
    const double part = range > 0 ? (value * scale - least * scale) / range : 1;
    const auto bucket = std::min(static_cast<std::int64_t>(part * static_cast<double>(count)), count - 1);
    result.rows[3 * static_cast<std::size_t>(bucket) + 2] += 1;
  }
  return result;
}

constexpr std::size_t kBuckets = 30;

std::vector<double> numbers_of(const HostArray& array) {
  std::vector<double> numbers(static_cast<std::size_t>(array.shape().count()));
  if (numbers.empty()) return numbers;
  ops::cast(Tensor(numbers.data(), DType::f64, array.shape(), Device::cpu()), array.tensor(), Stream(Device::cpu()));
  std::erase_if(numbers, [](double number) { return !std::isfinite(number); });
  return numbers;
}

}  // namespace

HistogramBuckets histogram_buckets(const Tensor& tensor, std::int64_t count) {
  return with_elements(tensor, [&](const auto* elements) { return buckets_of(elements, tensor.count(), count); });
}

Histogram histogram_of(const HostArray& array) {
  const std::vector<double> numbers = numbers_of(array);
  if (numbers.empty()) return {};
  const auto [least, largest] = std::minmax_element(numbers.begin(), numbers.end());
  const double low = *least, high = *largest;
  // numpy.isclose
  if (high - low <= 1e-8 + 1e-5 * std::abs(low))
    return {{high - 0.5, high + 0.5}, {static_cast<std::int64_t>(numbers.size())}};
  Histogram histogram;
  for (std::size_t i = 0; i <= kBuckets; ++i) {
    histogram.edges.push_back(i == kBuckets ? high : low + (high - low) * static_cast<double>(i) / kBuckets);
  }
  histogram.counts.resize(kBuckets);
  for (const double number : numbers) {
    const auto after = std::upper_bound(histogram.edges.begin() + 1, histogram.edges.end() - 1, number);
    ++histogram.counts[static_cast<std::size_t>(after - histogram.edges.begin()) - 1];
  }
  return histogram;
}

}  // namespace giro::detail
