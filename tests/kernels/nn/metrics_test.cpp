#include <giro/kernels/nn/metrics.h>

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/kernels/nn/gradient_test.h"

namespace giro::nn {
namespace {

using test::kNaN;

class MetricsVarTest : public GradientTest {
 protected:
  void expect_metric(const Metric& metric, double value, double count) {
    const double found = read(metric.value)[0];
    EXPECT_TRUE(std::isnan(value) ? std::isnan(found) : std::abs(found - value) < 1e-12) << found;
    EXPECT_EQ(read(metric.count)[0], count);
  }
};

TEST_P(MetricsVarTest, TopKAccuracy) {
  const Var logits = value(DType::f32, {5, 4}, {1, 2, 3, 4, 4, 3, 2, 1, 5, 5, 5, 0, 1, kNaN, 3, 2, 1, 2, 3, 4});
  const Var labels = value(DType::u8, {5}, {1, 1, 2, 2, 9});
  const double hits[] = {0, 2.0 / 5, 4.0 / 5, 4.0 / 5};  // the label 9 is not a class
  for (int k = 1; k <= 4; ++k) expect_metric(top_k_accuracy(logits, labels, k), hits[k - 1], 5);
  expect_metric(top_k_accuracy(logits, labels, 2, value(DType::boolean, {5}, {1, 1, 0, 0, 0})), 0.5, 2);
  for (const DType dtype : {DType::bf16, DType::f16, DType::f64}) {
    expect_metric(top_k_accuracy(cast(logits, dtype), labels, 2), 2.0 / 5, 5);
  }
  // With k = 1 it is accuracy.
  expect_metric(top_k_accuracy(logits, value(DType::i64, {5}, {3, 0, 0, 2, 3}), 1), 4.0 / 5, 5);
  expect_error(ErrorCode::invalid_argument, {"top_k_accuracy", "k is 5"},
               [&] { (void)top_k_accuracy(logits, labels, 5); });
}

TEST_P(MetricsVarTest, Perplexity) {
  const Var losses = value(DType::f32, {2, 2}, {1, 2, 3, kNaN}), mask = value(DType::f32, {2, 2}, {1, 1, 1, 0});
  const Metric metric = perplexity(losses, mask);
  expect_metric(metric, std::exp(2.0), 3);
  EXPECT_EQ(read(metric.logarithm)[0], 2);
}

TEST_P(MetricsVarTest, PrecisionAndRecall) {
  const Var predictions = value(DType::i32, {6}, {1, 1, 0, 1, 2, 0}),
            labels = value(DType::i64, {6}, {1, 0, 1, 1, 1, 0});
  expect_metric(precision(predictions, labels), 2.0 / 3, 3);
  expect_metric(recall(predictions, labels), 0.5, 4);
  expect_metric(precision(predictions, labels, 0), 0.5, 2);
  expect_metric(recall(predictions, labels, 7), kNaN, 0);
  const Var mask = value(DType::f32, {6}, {1, 1, 1, 0, 0, 0});
  expect_metric(precision(predictions, labels, 1, mask), 0.5, 2);
  expect_metric(recall(predictions, labels, 1, mask), 0.5, 2);
  expect_metric(recall(predictions == 1, labels == 1), 0.5, 4);
  expect_error(ErrorCode::dtype_mismatch, {"precision", "f32"}, [&] { (void)precision(mask, labels); });
  expect_error(ErrorCode::shape_mismatch, {"recall", "(2, 3)"}, [&] {
    (void)recall(predictions.reshape({2, 3}), labels);
  });
}

TEST_P(MetricsVarTest, ConfusionMatrix) {
  const Var predictions = value(DType::u8, {2, 4}, {0, 1, 2, 2, 2, 0, 1, 3}),
            labels = value(DType::i32, {2, 4}, {0, 1, 2, 1, 1, -1, 1, 0});
  const Var matrix = confusion_matrix(predictions, labels, 3).value;
  EXPECT_EQ(matrix.shape(), (Shape{3, 3}));
  EXPECT_EQ(matrix.dtype(), DType::i64);
  EXPECT_EQ(read(matrix), (Doubles{1, 0, 0, 0, 2, 2, 0, 0, 1}));
  EXPECT_EQ(read(confusion_matrix(value(DType::i32, {0}, {}), value(DType::i32, {0}, {}), 2).value), Doubles(4));
}

INSTANTIATE_TEST_SUITE_P(Devices, MetricsVarTest, test::kDevices, test::device_name);

}  // namespace
}  // namespace giro::nn
