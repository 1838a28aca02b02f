#include "callbacks/internal/metric_text.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include <giro/kernels/elementwise.h>
#include <giro/runtime/stream.h>

#include "runtime/internal/throw_error.h"

namespace giro::detail {
namespace {

constexpr std::size_t kBuckets = 30;

std::vector<double> numbers_of(const HostArray& array) {
  std::vector<double> numbers(static_cast<std::size_t>(array.shape().count()));
  if (numbers.empty()) return numbers;
  cast(Tensor(numbers.data(), DType::f64, array.shape(), Device::cpu()), array.tensor(), Stream(Device::cpu()));
  std::erase_if(numbers, [](double number) { return !std::isfinite(number); });
  return numbers;
}

}  // namespace

void expect_open(const std::string& writer, bool is_open) {
  if (!is_open) throw_invalid("{}: it is closed", writer);
}

void expect_writable(const std::string& writer, bool is_open, const Record& record) {
  expect_open(writer, is_open);
  if (record.elapsed.steps < 0) throw_invalid("{}: the step is {}, expected 0 or more", writer, record.elapsed.steps);
  const auto has_empty_tag = [](const auto& values) {
    return std::ranges::any_of(values, [](const auto& tagged) { return tagged.first.path().empty(); });
  };
  if (std::visit(has_empty_tag, record.values)) throw_invalid("{}: a tag is empty", writer);
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
