#include <giro/kernels/nn/losses.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include <giro/kernels/nn/functional.h>
#include <giro/runtime/program/graph.h>

#include "kernels/rules/record.h"
#include "tests/kernels/nn/gradient_test.h"
#include "tests/support/tensor_ops.h"

namespace giro::nn {
namespace {

using test::Array, test::kInfinity, test::kNaN;

class LossesTest : public GradientTest {
 protected:
  static void expect_near(const Doubles& actual, const Doubles& expected, double unit = test::kUnit) {
    test::Expected close;
    for (const double each : expected) close.add(each, 8 * unit * std::max(1.0, std::abs(each)));
    test::expect_close("values", actual, close);
  }

  struct Case {
    double smoothing = 0;
    Doubles weights = {};
    std::optional<std::int64_t> ignored = {};
  };
  // The loss of each row, by the definition, given a target for each class.
  static Doubles losses_of(const Array& logits, const Doubles& targets, const Case& of) {
    const std::int64_t classes = logits.shape[1];
    Doubles losses;
    for (std::int64_t r = 0; r < logits.shape[0]; ++r) {
      const double *const x = &logits.values[static_cast<std::size_t>(r * classes)],
                          *const t = &targets[static_cast<std::size_t>(r * classes)];
      double sum = 0, loss = 0;
      for (std::int64_t c = 0; c < classes; ++c) sum += std::exp(x[c]);
      for (std::int64_t c = 0; c < classes; ++c) {
        const double weight = of.weights.empty() ? 1 : of.weights[static_cast<std::size_t>(c)];
        const double target = (1 - of.smoothing) * t[c] + of.smoothing / static_cast<double>(classes);
        loss += weight * target * (std::log(sum) - x[c]);
      }
      losses.push_back(loss);
    }
    return losses;
  }
};

TEST_P(LossesTest, ErrorsOfPredictions) {
  const Var p = value(DType::f32, {6}, {1, 2, -3, 0.5, kNaN, 7}), t = value(DType::f32, {6}, {1, 0, 1, 0, 0, 2});
  const auto rest = [](Doubles values) {
    EXPECT_TRUE(std::isnan(values[4]));
    values.erase(values.begin() + 4);
    return values;
  };
  EXPECT_EQ(rest(read(squared_error(p, t))), (Doubles{0, 4, 16, 0.25, 25}));
  EXPECT_EQ(rest(read(absolute_error(p, t))), (Doubles{0, 2, 4, 0.5, 5}));
  EXPECT_EQ(rest(read(huber(p, t, 2))), (Doubles{0, 2, 6, 0.125, 8}));
  EXPECT_EQ(read(huber(value(DType::f32, {2}, {kInfinity, -kInfinity}), 0)), (Doubles{kInfinity, kInfinity}));
}

TEST_P(LossesTest, BinaryCrossEntropy) {
  const Doubles logits{0, 3, -3, 25, -25, 25, -25, 100, 0.5}, targets{1, 1, 1, 1, 0, 0, 1, 1, 0.25};
  Doubles plain, weighted;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double x = logits[i], t = targets[i];
    const double positive = t * std::log1p(std::exp(-x)), negative = (1 - t) * (x > 30 ? x : std::log1p(std::exp(x)));
    plain.push_back(positive + negative);
    weighted.push_back(3 * positive + negative);
  }
  const Var x = value(DType::f32, {9}, logits), t = value(DType::f32, {9}, targets);
  const Doubles actual = read(binary_cross_entropy_with_logits(x, t));
  expect_near(actual, plain);
  // Small losses also have a small relative error.
  for (const std::size_t i : {3u, 4u}) EXPECT_NEAR(actual[i], plain[i], 8 * test::kUnit * plain[i]);
  expect_near(read(binary_cross_entropy_with_logits(x, t, {.positive_weight = value(DType::f32, {}, {3})})), weighted);
}

TEST_P(LossesTest, CrossEntropyOfLabelsAndTargets) {
  const Array logits = random_.uniform({6, 5}, -3, 3), targets = random_.uniform({6, 5}, 0, 1);
  const Doubles labels{0, 4, 2, 2, 3, 1}, weights{1, 0.5, 2, 0, 3};
  Doubles exact(30);
  for (std::size_t r = 0; r < 6; ++r) exact[r * 5 + static_cast<std::size_t>(labels[r])] = 1;
  const Var x(upload(logits), stream()), y = value(DType::u8, {6}, labels), t(upload(targets), stream());
  for (const Case& of :
       {Case{}, Case{.smoothing = 0.1}, Case{.weights = weights}, Case{.smoothing = 0.3, .weights = weights},
        Case{.smoothing = 0.1, .ignored = 2}, Case{.weights = weights, .ignored = 3}}) {
    const CrossEntropyOptions options{of.smoothing, of.weights.empty() ? Var() : value(DType::f32, {5}, of.weights),
                                      of.ignored};
    Doubles expected = losses_of(logits, exact, of);
    for (std::size_t r = 0; r < 6; ++r) {
      if (of.ignored && labels[r] == static_cast<double>(*of.ignored)) expected[r] = 0;
    }
    expect_near(read(softmax_cross_entropy(x, y, options)), expected, 4 * test::kUnit);
    if (!of.ignored) {
      expect_near(read(softmax_cross_entropy(x, t, options)), losses_of(logits, targets.values, of), 4 * test::kUnit);
    }
    if (of.smoothing == 0 && of.weights.empty()) continue;
    check("labels", {logits}, [&](const Vars& p) { return softmax_cross_entropy(p[0], y, options); });
  }
  check("targets", {logits, targets}, [&](const Vars& p) { return softmax_cross_entropy(p[0], p[1]); });
}

TEST_P(LossesTest, CrossEntropyOfAnyRank) {
  const Array logits = random_.uniform({2, 3, 4}, -3, 3);
  const Var x(upload(logits), stream()), y = value(DType::i32, {2, 3}, {0, 1, 2, 3, -1, 0});
  const Var flat = softmax_cross_entropy(x.reshape({6, 4}), y.reshape({6}), {.ignored_label = -1});
  const Var losses = softmax_cross_entropy(x, y, {.ignored_label = -1});
  EXPECT_EQ(losses.shape(), (Shape{2, 3}));
  EXPECT_EQ(read(losses), read(flat));
  EXPECT_EQ(read(losses)[4], 0);
  EXPECT_EQ(softmax_cross_entropy(value(DType::f32, {3}, {1, 2, 3}), value(DType::u8, {}, {1})).shape(), Shape{});
  EXPECT_EQ(softmax_cross_entropy(value(DType::f32, {0, 3}, {}), value(DType::u8, {0}, {})).shape(), Shape{0});
}

// Up to 1,024 classes and beyond; see softmax_cross_entropy_test.cpp for the NaN.
TEST_P(LossesTest, LabelOutOfRangeIsReportedByTheNextWait) {
  for (const std::int64_t classes : {4, 1100}) {
    const Var x(upload(random_.uniform({2, 3, classes}, -3, 3)), stream());
    for (const DType dtype : {DType::u8, DType::i32, DType::i64}) {
      const bool is_byte = dtype == DType::u8;
      if (is_byte && classes > 255) continue;  // no byte is out of range
      const double wrong = is_byte ? 255 : -1;
      const Var labels = value(dtype, {2, 3}, {0, 3, wrong, 1, static_cast<double>(is_byte ? 4 : classes), 2});
      const int line = __LINE__ + 1;
      const Var losses = softmax_cross_entropy(x, labels);
      test::expect_error(ErrorCode::invalid_argument,
                         {fmt::format("softmax_cross_entropy: label {} at position 2 of {}(2, 3), expected at least 0 "
                                      "and below {} (called at {}:{}",
                                      wrong, name_of(dtype), classes, __FILE__, line)},
                         [&] { stream().synchronize(); });
      const Doubles values = read(losses);
      EXPECT_TRUE(std::isnan(values[2]) && std::isnan(values[4])) << name_of(dtype) << classes;
      for (const std::size_t known : {0, 1, 3, 5}) EXPECT_FALSE(std::isnan(values[known])) << known;
    }
  }
}

// The rule that fuses the losses with their mean keeps the check.
TEST_P(LossesTest, ReplayOfAMeanReportsLabelOutOfRange) {
  for (const std::int64_t classes : {4, 1100}) {
    for (const std::int64_t rows : {8, 200}) {
      const Var x = Var::parameter(upload(random_.uniform({rows, classes}, -3, 3)),
                                   allocate(DType::f32, {rows, classes}), stream());
      const Var labels = value(DType::i32, {rows}, Doubles(static_cast<std::size_t>(rows), 1));
      const Graph graph = rules::record(stream(), [&] { backward(mean(softmax_cross_entropy(x, labels))); });
      graph.replay(stream());
      EXPECT_NO_THROW(stream().synchronize());
      giro::fill(labels.value().rows(5, 7), static_cast<double>(classes), stream());
      graph.replay(stream());
      test::expect_error(ErrorCode::invalid_argument,
                         {fmt::format("label {} at position 5 of i32({},)", classes, rows)},
                         [&] { stream().synchronize(); });
      EXPECT_NO_THROW(stream().synchronize());
    }
  }
}

TEST_P(LossesTest, SoftmaxOfLargeNumbers) {
  const Var x = value(DType::f32, {2, 3}, {1000, 1001, 1002, -1000, 0, -kInfinity});
  const double sum = std::exp(-2) + std::exp(-1) + 1;
  expect_near(read(softmax(x)), {std::exp(-2) / sum, std::exp(-1) / sum, 1 / sum, 0, 1, 0});
  const Doubles logs = read(log_softmax(x));
  expect_near({logs.begin(), logs.begin() + 5}, {-2 - std::log(sum), -1 - std::log(sum), -std::log(sum), -1000, 0});
  EXPECT_EQ(logs[5], -kInfinity);
  EXPECT_EQ(read(softmax(value(DType::bf16, {2, 2}, {0, 1, 0, 1}), {0})), (Doubles{0.5, 0.5, 0.5, 0.5}));
}

TEST_P(LossesTest, Divergence) {
  const Doubles p{0.1, 0.2, 0.7, 0.5, 0.25, 0.25}, t{0.3, 0.3, 0.4, 0, 1, 0};
  Doubles logs, expected(2);
  for (std::size_t i = 0; i < 6; ++i) {
    logs.push_back(std::log(p[i]));
    if (t[i] > 0) expected[i / 3] += t[i] * (std::log(t[i]) - logs[i]);
  }
  expect_near(read(kl_divergence(value(DType::f32, {2, 3}, logs), value(DType::f32, {2, 3}, t))), expected);
}

TEST_P(LossesTest, Cosines) {
  const Var a = value(DType::f32, {3, 2}, {1, 0, 3, 4, 0, 0}), b = value(DType::f32, {3, 2}, {1, 1, -6, -8, 1, 2});
  expect_near(read(cosine_similarity(a, b)), {std::sqrt(0.5), -1, 0});
  expect_near(read(cosine_distance(a, b)), {1 - std::sqrt(0.5), 2, 1});
  EXPECT_EQ(cosine_similarity(a, b, 0).shape(), Shape{2});
  for (const double size : {1e20, 1e-7}) {
    expect_near(read(cosine_similarity(a * size, b * size)), {std::sqrt(0.5), -1, 0});
  }
}

// 16 bits have too little range for the squares of these numbers, and bytes wrap.
TEST_P(LossesTest, EveryLossIsComputedInF32) {
  const Doubles large{250, 3, 240, 0, 7, 255}, larger{3, 250, 0, 240, 255, 7}, small{2e-4, 0, 1e-4, 0, 3e-4, 1e-4};
  const std::vector<std::pair<std::string, Var (*)(const Var&, const Var&)>> losses{
      {"squared_error", [](const Var& x, const Var& y) { return squared_error(x, y); }},
      {"squared_error of a number", [](const Var& x, const Var&) { return squared_error(x, 5); }},
      {"absolute_error", [](const Var& x, const Var& y) { return absolute_error(x, y); }},
      {"huber", [](const Var& x, const Var& y) { return huber(x, y, 300); }},
      {"binary", [](const Var& x, const Var& y) { return binary_cross_entropy_with_logits(x, y); }},
      {"kl_divergence", [](const Var& x, const Var& y) { return kl_divergence(x, y); }},
      {"cosine_similarity", [](const Var& x, const Var& y) { return cosine_similarity(x, y); }},
      {"cosine_distance", [](const Var& x, const Var& y) { return cosine_distance(x, y, 0); }},
      {"weighted_mean", [](const Var& x, const Var& y) { return weighted_mean(x, y); }}};
  for (const auto& [name, loss] : losses) {
    const auto expect_in_f32 = [&](DType dtype, const Doubles& a, const Doubles& b) {
      SCOPED_TRACE(fmt::format("{} of {}", name, name_of(dtype)));
      const Var x = value(dtype, {2, 3}, a), y = value(dtype, {2, 3}, b);
      const Var narrow = loss(x, y), wide = loss(cast(x, DType::f32), cast(y, DType::f32));
      EXPECT_EQ(narrow.dtype(), DType::f32);
      EXPECT_EQ(read(narrow), read(wide));
    };
    for (const DType dtype : {DType::f16, DType::bf16, DType::u8, DType::i32}) expect_in_f32(dtype, large, larger);
    expect_in_f32(DType::f16, small, {small.rbegin(), small.rend()});
    EXPECT_EQ(loss(value(DType::f64, {2, 3}, large), value(DType::f16, {2, 3}, larger)).dtype(), DType::f64) << name;
  }
  const Var logits = value(DType::f16, {2, 3}, large), targets = value(DType::f16, {2, 3}, small);
  EXPECT_EQ(read(softmax_cross_entropy(logits, targets, {.label_smoothing = 0.1})),
            read(softmax_cross_entropy(cast(logits, DType::f32), cast(targets, DType::f32), {.label_smoothing = 0.1})));
  // A constant without a stream.
  EXPECT_EQ(read(squared_error(logits, Var(targets.value()))), read(squared_error(logits, targets)));
}

TEST_P(LossesTest, WeightedMeans) {
  const Var x = value(DType::f32, {2, 3}, {1, 2, kNaN, 4, 5, 6});
  EXPECT_EQ(read(weighted_mean(x, value(DType::boolean, {2, 3}, {1, 1, 0, 0, 1, 0}))), Doubles{8.0f / 3});
  EXPECT_EQ(read(weighted_mean(x, value(DType::f32, {2}, {0, 2}))), Doubles{5});
  EXPECT_EQ(read(weighted_mean(x, value(DType::f32, {2, 3}, {1, 3, 0, 0, 0, 4}))), Doubles{(1 + 6 + 24) / 8.0});
  EXPECT_TRUE(std::isnan(read(weighted_mean(x, value(DType::u8, {2}, {0, 0})))[0]));
  const Tensor grad = allocate(DType::f32, {2, 3});
  backward(weighted_mean(Var::parameter(x.value(), grad, stream()), value(DType::f32, {2, 3}, {1, 3, 0, 0, 0, 4})));
  EXPECT_EQ(to_host<float>(grad, stream()), (std::vector<float>{0.125, 0.375, 0, 0, 0, 0.5}));
}

// PyTorch's mean of weighted classes divides by the sum of the labels' weights, with ignore_index by those that count.
TEST_P(LossesTest, MeanOfWeightedClassesAsInPyTorch) {
  constexpr std::size_t kRowCount = 5, kClassCount = 3;
  const Array x = random_.uniform({5, 3}, -2, 2);
  const Doubles labels{0, 2, -100, 1, 2}, weights{0.5, 3, 0.25};
  double sum = 0, sum_of_weights = 0, counted = 0;
  for (std::size_t row = 0; row < kRowCount; ++row) {
    if (labels[row] < 0) continue;
    const auto label = static_cast<std::size_t>(labels[row]);
    double of_exp = 0;
    for (std::size_t c = 0; c < kClassCount; ++c) of_exp += std::exp(x.values[row * kClassCount + c]);
    sum += weights[label] * (std::log(of_exp) - x.values[row * kClassCount + label]);
    sum_of_weights += weights[label], counted += 1;
  }
  const Var logits(upload(x), stream()), w = value(DType::f32, {3}, weights), y = value(DType::i32, {5}, labels);
  const Var counts = y != -100, of_labels = where(counts, take(w, where(counts, y, 0)), 0);
  const Var losses = softmax_cross_entropy(logits, y, {.ignored_label = -100});
  expect_near(read(weighted_mean(losses, of_labels)), {sum / sum_of_weights});
  // Within the loss the weights are only factors.
  const Var weighted = softmax_cross_entropy(logits, y, {.class_weights = w, .ignored_label = -100});
  expect_near(read(weighted_mean(weighted, counts)), {sum / counted});
}

TEST_P(LossesTest, Gradients) {
  const Array a = separated({3, 4}), b = random_.uniform({3, 4}, -0.05, 0.05), t = random_.uniform({3, 4}, 0.4, 0.8);
  check("squared_error", {a, b}, [](const Vars& p) { return squared_error(p[0], p[1]); });
  check("absolute_error", {a}, [](const Vars& p) { return absolute_error(p[0], 0); });
  check("huber", {a}, [](const Vars& p) { return huber(p[0], 0, 0.6); });
  check("binary", {a, t}, [](const Vars& p) { return binary_cross_entropy_with_logits(p[0], p[1]); });
  check("kl", {a, t}, [](const Vars& p) { return kl_divergence(log_softmax(p[0]), p[1]); });
  check("cosine", {random_.uniform({3, 4}, 0.5, 1), random_.uniform({3, 4}, 0.5, 1)},
        [](const Vars& p) { return cosine_distance(p[0], p[1]); });
  check("softmax", {b}, [](const Vars& p) { return softmax(p[0]); });
  check("log_softmax", {b}, [](const Vars& p) { return log_softmax(p[0], {0}); });
  // A vector of zeros has the gradient 0, not NaN.
  const Tensor grad = allocate(DType::f32, {1, 2});
  const Var zero = Var::parameter(upload({DType::f32, {1, 2}, {0, 0}}), grad, stream());
  backward(sum(cosine_similarity(zero, value(DType::f32, {1, 2}, {3, 4}))));
  for (const float slope : to_host<float>(grad, stream())) EXPECT_TRUE(std::isfinite(slope));
}

TEST_P(LossesTest, BadArguments) {
  const Var x = value(DType::f32, {2, 3}, {1, 2, 3, 4, 5, 6}), y = value(DType::i32, {2}, {0, 1});
  expect_error(ErrorCode::invalid_argument, {"huber", "delta is 0"}, [&] { (void)huber(x, x, 0); });
  expect_error(ErrorCode::invalid_argument, {"label_smoothing is 2"},
               [&] { (void)softmax_cross_entropy(x, y, {.label_smoothing = 2}); });
  expect_error(ErrorCode::shape_mismatch, {"class_weights", "(2,)", "(3,)"},
               [&] { (void)softmax_cross_entropy(x, y, {.class_weights = y}); });
  expect_error(ErrorCode::invalid_argument, {"ignored label"},
               [&] { (void)softmax_cross_entropy(x, x, {.ignored_label = 1}); });
  expect_error(ErrorCode::shape_mismatch, {"softmax_cross_entropy", "(3,)", "(2, 3)"}, [&] {
    (void)softmax_cross_entropy(x, value(DType::i32, {3}, {0, 1, 2}));
  });
  expect_error(ErrorCode::shape_mismatch, {"targets", "(3, 2)"}, [&] {
    (void)softmax_cross_entropy(x, x.reshape({3, 2}));
  });
  expect_error(ErrorCode::shape_mismatch, {"weights", "(3,)", "(2, 3)"}, [&] {
    (void)weighted_mean(x, value(DType::f32, {3}, {1, 1, 1}));
  });
}

INSTANTIATE_TEST_SUITE_P(Devices, LossesTest, test::kDevices, test::device_name);

}  // namespace
}  // namespace giro::nn
