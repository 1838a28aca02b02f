#pragma once

#include <deque>
#include <optional>

#include <giro/kernels/nn/metrics.h>
#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

namespace giro::test {

// A metric as average and standard_deviation return it, from numbers.
inline nn::Metric counted_metric(double value, double count, std::optional<double> mean = {}) {
  static std::deque<double> numbers;
  const auto scalar = [](double number) {
    return nn::Var(Tensor(&numbers.emplace_back(number), DType::f64, {}, Device::cpu()), Stream(Device::cpu()));
  };
  nn::Metric metric{.value = scalar(value), .count = scalar(count)};
  if (mean) metric.mean = scalar(*mean);
  return metric;
}

}  // namespace giro::test
