
#include "tests/kernels/op_test.h"
#include "tests/support/tensor_ops.h"

namespace giro {
namespace {

using test::Array, test::Expected, test::kUnit, test::Tensors;

const Shape kLogitsShapes[] = {{1, 1}, {1, 10}, {32, 10}, {257, 3}, {5, 101}, {1021, 2}, {3, 1000}, {2, 4099}, {0, 10}};

struct LossAndGradient {
  Expected losses, dlogits;
};

LossAndGradient loss_and_gradient(const Array& logits, const std::vector<double>& labels) {
  const std::int64_t rows = logits.shape[0], classes = logits.shape[1];
  const double terms = 8;  // the same for any number of classes
  LossAndGradient result;
  for (std::int64_t r = 0; r < rows; ++r) {
    const double* x = logits.values.data() + r * classes;
    const double label = labels[r];
    const bool valid = label >= 0 && label < static_cast<double>(classes);
    double largest = -test::kInfinity, sum = 0;
    bool nan = !valid;
    for (std::int64_t c = 0; c < classes; ++c) nan |= std::isnan(x[c]), largest = std::max(largest, x[c]);
    for (std::int64_t c = 0; c < classes; ++c) sum += std::exp(x[c] - largest);
    if (nan) {
      result.losses.add(test::kNaN, 0);
      for (std::int64_t c = 0; c < classes; ++c) result.dlogits.add(test::kNaN, 0);
      continue;
    }
    const double below = largest - x[static_cast<std::int64_t>(label)];
    result.losses.add(std::log(sum) + below, kUnit * (terms + 4 * (std::log(sum) + below)));
    for (std::int64_t c = 0; c < classes; ++c) {
      const double p = std::exp(x[c] - largest) / sum;
      const double gradient = p - (c == static_cast<std::int64_t>(label) ? 1 : 0);
      // exp carries the rounding of its argument. Subnormal f32 values may be flushed.
      result.dlogits.add(gradient, kUnit * (p * (terms + 4 * (largest - x[c])) + std::abs(gradient)) + 4 * FLT_MIN);
    }
  }
  return result;
}

double total_loss(const Shape& shape, const std::vector<double>& logits, const std::vector<double>& labels) {
  double total = 0;
  for (const double loss : loss_and_gradient({DType::f32, shape, logits}, labels).losses.values) total += loss;
  return total;
}

class SoftmaxCrossEntropyTest : public test::OpTest {
 protected:
  std::vector<std::vector<double>> check_both(const std::string& name, const Array& logits, const Array& labels) {
    const LossAndGradient expected = loss_and_gradient(logits, labels.values);
    return check({.name = fmt::format("{}, {}, labels {}", name, to_string(logits.shape), name_of(labels.dtype)),
                  .inputs = {logits, labels},
                  .outputs = {{DType::f32, labels.shape, {}}, {DType::f32, logits.shape, {}}},
                  .run = [](const Tensors& out, const Tensors& in,
                            const Stream& s) { softmax_cross_entropy(out[0], out[1], in[0], in[1], s); },
                  .expected = {expected.losses, expected.dlogits}});
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, SoftmaxCrossEntropyTest, test::kDevices, test::device_name);

TEST_P(SoftmaxCrossEntropyTest, LossAndGradient) {
  for (const Shape& shape : kLogitsShapes) {
    const Array logits = random_.uniform(shape, -5, 5);
    for (const DType dtype : test::kLabelDTypes) {
      const std::int64_t last = std::min<std::int64_t>(shape[1], 256) - 1;
      const Array labels = random_.integers({shape[0]}, 0, last, dtype);
      const auto actual = check_both("random", logits, labels);
      if (shape.count() > 1000 || dtype != DType::i32) continue;
      test::expect_finite_differences(
          to_string(shape), actual[1], loss_and_gradient(logits, labels.values).dlogits, logits.values,
          [&](const std::vector<double>& v) { return total_loss(shape, v, labels.values); });
    }
  }
}

TEST_P(SoftmaxCrossEntropyTest, GradientMayBeOmittedOrOverwriteTheLogits) {
  for (const Shape& shape : kLogitsShapes) {
    const Array logits = random_.uniform(shape, -5, 5);
    const Array labels = random_.integers({shape[0]}, 0, std::min<std::int64_t>(shape[1], 256) - 1, DType::u8);
    const LossAndGradient expected = loss_and_gradient(logits, labels.values);
    check({.name = fmt::format("losses alone, {}", to_string(shape)),
           .inputs = {logits, labels},
           .outputs = {{DType::f32, labels.shape, {}}},
           .run = [](const Tensors& out, const Tensors& in,
                     const Stream& s) { softmax_cross_entropy(out[0], {}, in[0], in[1], s); },
           .expected = {expected.losses}});
    check({.name = fmt::format("in place, {}", to_string(shape)),
           .inputs = {labels},
           .outputs = {{DType::f32, labels.shape, {}}, logits},
           .run = [](const Tensors& out, const Tensors& in,
                     const Stream& s) { softmax_cross_entropy(out[0], out[1], out[1], in[0], s); },
           .expected = {expected.losses, expected.dlogits}});
  }
}

TEST_P(SoftmaxCrossEntropyTest, EqualLogits) {
  for (const double value : {0.0, -3.0, 1e4, -1e30}) {
    const Array logits{DType::f32, {3, 10}, std::vector<double>(30, test::round_to(DType::f32, value))};
    check_both(fmt::format("all {}", value), logits, {DType::u8, {3}, {0, 4, 9}});
  }
}

TEST_P(SoftmaxCrossEntropyTest, LargeNegativeLogits) {
  for (const Shape& shape : kLogitsShapes) {
    const Array labels = random_.integers({shape[0]}, 0, std::min<std::int64_t>(shape[1], 256) - 1, DType::u8);
    check_both("below -100", random_.uniform(shape, -120, -100), labels);
  }
}

// As precise as with ten classes. Without check(), which would run it five times.
TEST_P(SoftmaxCrossEntropyTest, MillionClasses) {
  constexpr std::int64_t kClasses = 1'000'003;
  const Shape shape{1, kClasses};
  Array steep = random_.uniform(shape, -5, 0), level{DType::f32, shape, std::vector<double>(kClasses, -0.7f)};
  level.values[17] = 0;
  const std::vector<double> label{5};
  const Tensor logits = tensor(shape), labels = tensor({1}, DType::i32), losses = tensor({1}), dlogits = tensor(shape);
  from_host<std::int32_t>(labels, {5}, stream());
  for (const Array* x : {&steep, &level}) {
    const LossAndGradient expected = loss_and_gradient(*x, label);
    from_host(logits, std::vector<float>(x->values.begin(), x->values.end()), stream());
    softmax_cross_entropy(losses, dlogits, logits, labels, stream());
    const std::vector<float> loss = to_host<float>(losses, stream()), gradient = to_host<float>(dlogits, stream());
    test::expect_close("loss", {loss.begin(), loss.end()}, expected.losses);
    test::expect_close("gradient", {gradient.begin(), gradient.end()}, expected.dlogits);
  }
}

TEST_P(SoftmaxCrossEntropyTest, HugeLogitsDoNotOverflow) {
  Array logits = random_.uniform({64, 13}, -1e4, 1e4);
  const Array labels = random_.integers({64}, 0, 12, DType::i32);
  check_both("up to 1e4", logits, labels);
  for (double& value : logits.values) value = test::round_to(DType::f32, value + (value < 0 ? -1e4 : 1e4));
  check_both("up to 2e4", logits, labels);
  // One logit dominates: the loss is its distance from the label's logit, to the last unit.
  check_both("one stands out", {DType::f32, {2, 3}, {1e4, 0, 0, 0, -1e4, 1e4}}, {DType::u8, {2}, {1, 1}});
}

// So many classes that a GPU splits each row among warps or blocks.
TEST_P(SoftmaxCrossEntropyTest, NaNRowsOfManyClasses) {
  Array logits = random_.uniform({4, 1100}, -2, 2);
  logits.values[1100 + 7] = test::kNaN;
  check_both("-1, NaN and 1100", logits, {DType::i32, {4}, {-1, 10, 1100, 1099}});
}

TEST_P(SoftmaxCrossEntropyTest, LabelOutOfRangeMakesItsRowNaN) {
  const Array logits = random_.uniform({5, 10}, -2, 2);
  check_both("10 and 255", logits, {DType::u8, {5}, {0, 10, 9, 255, 3}});
  for (const DType dtype : {DType::i32, DType::i64}) {
    check_both("10 and -1", logits, {dtype, {5}, {0, 10, 9, -1, 3}});
    check_both("far out", logits, {dtype, {5}, {0, 2147483647, 9, -2147483648.0, 3}});
  }
  check_both("beyond 32 bits", logits, {DType::i64, {5}, {0, 4294967296.0, 9, -4294967295.0, 3}});
}

TEST_P(SoftmaxCrossEntropyTest, NaNLogitMakesItsRowNaN) {
  for (const int place : {0, 4, 9}) {
    Array logits = random_.uniform({3, 10}, -2, 2);
    logits.values[static_cast<std::size_t>(10 + place)] = test::kNaN;
    check_both(fmt::format("NaN at {}", place), logits, {DType::u8, {3}, {1, 4, 7}});
  }
}

}  // namespace
}  // namespace giro
