#include <giro/kernels/nn/random.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include <giro/kernels/nn/functional.h>
#include <giro/runtime/program/graph.h>
#include <giro/runtime/program/program.h>
#include <giro/runtime/rng.h>

#include "kernels/rules/record.h"
#include "tests/kernels/nn/gradient_test.h"
#include "tests/support/environment_setting.h"

namespace giro::nn {
namespace {

class RandomTest : public GradientTest {
 protected:
  Var key(std::int64_t value) { return Var(tensor({value}, {}), stream()); }
  Tensor tensor(const std::vector<std::int64_t>& values, const Shape& shape) {
    const Tensor made = allocate(DType::i64, shape);
    stream().copy(made.raw(), values.data(), made.bytes());
    stream().synchronize();
    return made;
  }
  template <class T = float>
  std::vector<T> read(const Var& y) {
    return to_host<T>(y.value(), stream());
  }
  std::vector<bool> read_booleans(const Var& y) {
    const std::vector<float> ones = read(cast(y, DType::f32));
    return {ones.begin(), ones.end()};
  }

  // The Kolmogorov-Smirnov test: the share of samples below any x differs from the distribution by less than a bound
  // that correct samples exceed with a probability of 1e-6.
  static void expect_distribution(std::vector<float> samples, const std::function<double(double)>& cumulative) {
    std::sort(samples.begin(), samples.end());
    const auto n = static_cast<double>(samples.size());
    double most = 0;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const double exact = cumulative(static_cast<double>(samples[i]));
      most = std::max({most, exact - static_cast<double>(i) / n, static_cast<double>(i + 1) / n - exact});
    }
    EXPECT_LT(most * std::sqrt(n), 2.7);  // 2 exp(-2 2.7^2) = 1e-6
  }

  struct Moments {
    double mean, variance;
  };
  static Moments moments(const std::vector<float>& samples) {
    double mean = 0, variance = 0;
    for (const float x : samples) mean += static_cast<double>(x) / static_cast<double>(samples.size());
    for (const float x : samples) variance += std::pow(static_cast<double>(x) - mean, 2);
    return {mean, variance / static_cast<double>(samples.size())};
  }

  // Enough to detect a bias of a thousandth; fewer on an emulated GPU.
  std::int64_t many() const { return device().is_cuda() ? 1 << 14 : 1 << 20; }
};

// Rng itself is tested against the published known answers (tests/runtime/rng_test.cpp).
TEST_P(RandomTest, MatchRng) {
  for (const std::int64_t seed : {std::int64_t{0}, std::int64_t{42}, std::int64_t{-1}, INT64_MIN}) {
    const Rng draws{static_cast<std::uint64_t>(seed), RngPurpose::draw}, keys{draws.seed, RngPurpose::key};
    const std::vector<float> uniform = read(random_uniform(key(seed), {1003}));
    for (std::uint64_t i = 0; i < 1003; ++i) ASSERT_EQ(uniform[i], draws.uniform(i)) << seed << ' ' << i;
    for (const std::int64_t i : {0, 1, 2, 77, -1}) {
      const auto index = static_cast<std::uint64_t>(i);
      const PhiloxBlock block = keys.block(index / 2);
      const std::size_t first = index % 2 * 2;
      EXPECT_EQ(static_cast<std::uint64_t>(read<std::int64_t>(fold_in(key(seed), i).base.var).front()),
                std::uint64_t{block.word[first + 1]} << 32 | block.word[first]);
    }
    const std::vector<float> normal = read(random_normal(key(seed), {1003}));
    for (std::uint64_t i = 0; i < 1003; ++i) {
      const PhiloxBlock block = draws.block(i / 2);
      const std::size_t first = i % 2 * 2;
      const double u = ((block.word[first] >> 1) + 0.5) * 0x1p-31, turns = block.word[first + 1] * 0x1p-32;
      const double radius = std::sqrt(-2 * std::log(u)), z = radius * std::cos(2 * M_PI * turns);
      // u is rounded twice. That shifts its logarithm by two units, and so the radius by two units divided by the
      // radius.
      const double tolerance = 8 * test::kUnit * (radius + 1) + 2 * test::kUnit / std::max(radius, 1e-3);
      ASSERT_NEAR(static_cast<double>(normal[i]), z, tolerance) << seed << ' ' << i;
    }
  }
}

TEST_P(RandomTest, UniformNumbersFillTheirRange) {
  const std::vector<float> samples = read(random_uniform(key(1), {many()}, -3, 5));
  const auto n = static_cast<double>(many());
  EXPECT_NEAR(moments(samples).mean, 1, 5 * std::sqrt(64 / 12.0 / n));
  EXPECT_NEAR(moments(samples).variance, 64 / 12.0, 5 * 64 * std::sqrt(1 / 180.0 / n));
  EXPECT_GE(*std::min_element(samples.begin(), samples.end()), -3);
  EXPECT_LT(*std::max_element(samples.begin(), samples.end()), 5);
  expect_distribution(samples, [](double x) { return (x + 3) / 8; });
}

// [1, 2) has half as many floats as there are draws, so the largest draws would round up.
TEST_P(RandomTest, UpperBoundIsExclusive) {
  const float next = std::nextafter(1.0f, 2.0f);
  for (const float x : read(random_uniform(key(3), {4096}, 1, static_cast<double>(next)))) EXPECT_EQ(x, 1.0f);
  const float before = std::nextafter(-4.0f, -5.0f);
  for (const float x : read(random_uniform(key(3), {4096}, static_cast<double>(before), -4))) EXPECT_EQ(x, before);
}

TEST_P(RandomTest, NormalNumbersAreNormal) {
  const std::vector<float> samples = read(random_normal(key(2), {many()}, 0.5, 2));
  const auto n = static_cast<double>(many());
  EXPECT_NEAR(moments(samples).mean, 0.5, 5 * 2 / std::sqrt(n));
  EXPECT_NEAR(moments(samples).variance, 4, 5 * 4 * std::sqrt(2 / n));
  expect_distribution(samples, [](double x) { return std::erfc((0.5 - x) / 2 / std::sqrt(2)) / 2; });
  // Adjacent numbers share a block, but must not be correlated.
  double product = 0;
  for (std::size_t i = 0; i + 1 < samples.size(); ++i) {
    product += (static_cast<double>(samples[i]) - 0.5) * (static_cast<double>(samples[i + 1]) - 0.5) / 4;
  }
  EXPECT_NEAR(product / n, 0, 5 / std::sqrt(n));
}

TEST_P(RandomTest, BernoulliHasTheGivenProbability) {
  const auto n = static_cast<double>(many());
  const auto share = [](const std::vector<bool>& all) {
    return static_cast<double>(std::count(all.begin(), all.end(), true)) / static_cast<double>(all.size());
  };
  EXPECT_NEAR(share(read_booleans(random_bernoulli(key(4), 0.3, {many()}))), 0.3, 5 * std::sqrt(0.21 / n));
  EXPECT_EQ(share(read_booleans(random_bernoulli(key(4), 0, {1000}))), 0);
  EXPECT_EQ(share(read_booleans(random_bernoulli(key(4), 1, {1000}))), 1);

  // A probability for each column.
  const Var p(upload({DType::f32, {3}, {0, 1, 0.5}}), stream());
  const std::vector<bool> columns = read_booleans(random_bernoulli(key(5), p, {400, 3}));
  const std::vector<float> uniform = read(random_uniform(key(5), {400, 3}));
  for (std::size_t i = 0; i < columns.size(); ++i) {
    EXPECT_EQ(columns[i], i % 3 == 1 || (i % 3 == 2 && uniform[i] < 0.5f)) << i;
  }
}

TEST_P(RandomTest, KeysGiveSeparateStreams) {
  std::set<std::vector<float>> streams;
  std::set<std::int64_t> keys{0, 1};
  for (const std::int64_t seed : {0, 1}) {
    streams.insert(read(random_uniform(key(seed), {64})));
    for (const std::int64_t step : {0, 1, 2}) {
      const Var folded = fold_in(key(seed), step).base.var;
      EXPECT_TRUE(keys.insert(read<std::int64_t>(folded).front()).second);
      streams.insert(read(random_uniform(folded, {64})));
      // The folded-in number may be on the host or the device.
      const Var on_device(upload({DType::i32, {}, {static_cast<double>(step)}}), stream());
      EXPECT_EQ(read<std::int64_t>(fold_in(seed, on_device).base.var), read<std::int64_t>(folded));
    }
  }
  EXPECT_EQ(streams.size(), 8u);
}

TEST_P(RandomTest, NumberDependsOnElementIndex) {
  const std::vector<float> rows = read(random_normal(key(6), {70, 33})), flat = read(random_normal(key(6), {2310})),
                           fewer = read(random_normal(key(6), {2, 3, 33}));
  EXPECT_EQ(flat, rows);
  EXPECT_EQ(fewer, std::vector<float>(rows.begin(), rows.begin() + 198));
  EXPECT_EQ(read(slice(random_uniform(key(6), {70, 33}), {.axis = 0, .end = 6})),
            read(random_uniform(key(6), {6, 33})));
  EXPECT_TRUE(read(random_uniform(key(6), {0, 3})).empty());
  EXPECT_EQ(read(random_uniform(key(6), {})), std::vector<float>{read(random_uniform(key(6), {5})).front()});
}

TEST_P(RandomTest, SameBitsRegardlessOfFusion) {
  const Shape shape{37, 70};
  const Var x(upload(random_.uniform(shape, -2, 2)), stream()), k = key(7);
  const auto body = [&] {
    const Var noisy = x + random_uniform(k, shape, -0.5, 0.5) * transpose(random_normal(fold_in(k, 1), {70, 37}));
    return dropout(noisy / sum(square(noisy), {-1}), 0.4, fold_in(k, 2));
  };
  const std::vector<float> eager = read(body());
  for (const char* const setting : {"0", "1"}) {
    const test::RewriteSetting rewriting(setting);
    Var y;
    const Graph graph = rules::record(stream(), [&] { y = body(); });
    graph.replay(stream());
    EXPECT_EQ(read(y), eager) << "rules " << setting;
  }
}

TEST_P(RandomTest, DropoutKeepsAFractionAndScalesIt) {
  const Var x(upload(random_.uniform({100, 30}, 1, 2)), stream());
  const std::vector<float> given = read(x), y = read(dropout(x, 0.25, 9));
  const std::vector<bool> kept = read_booleans(random_bernoulli(key(9), 0.75, {100, 30}));
  for (std::size_t i = 0; i < y.size(); ++i) {
    EXPECT_EQ(y[i], kept[i] ? given[i] * static_cast<float>(1 / 0.75) : 0.0f) << i;
  }
  EXPECT_EQ(dropout(x, 0, 9).value().raw(), x.value().raw());
  // Dropped values may be infinite.
  const Var infinite(upload({DType::f32, {64}, Doubles(64, test::kInfinity)}), stream());
  for (const float each : read(dropout(infinite, 0.5, 9))) EXPECT_FALSE(std::isnan(each));
}

// Scaled in f32 and rounded once.
TEST_P(RandomTest, DropoutOfEveryFloatingDtype) {
  for (const DType dtype : test::kFloatingDTypes) {
    const test::Array array = random_.uniform({200}, -2, 2, dtype);
    const Var y = dropout(Var(upload(array), stream()), 0.1, 11);
    EXPECT_EQ(y.dtype(), dtype);
    const std::vector<bool> kept = read_booleans(random_bernoulli(key(11), 0.9, {200}));
    test::Bytes bytes(y.value().bytes());
    stream().copy(bytes.data(), y.value().raw(), bytes.size());
    stream().synchronize();
    const Doubles actual = test::decode(dtype, bytes);
    for (std::size_t i = 0; i < kept.size(); ++i) {
      const double scaled =
          dtype == DType::f64 ? array.values[i] * (1 / 0.9)
                              : static_cast<double>(static_cast<float>(array.values[i]) * static_cast<float>(1 / 0.9));
      EXPECT_EQ(actual[i], kept[i] ? test::round_to(dtype, scaled) : 0) << name_of(dtype) << ' ' << i;
    }
  }
}

TEST_P(RandomTest, GradientDropsTheSameElements) {
  const Tensor grad = allocate(DType::f32, {500});
  const Var x = Var::parameter(upload(random_.uniform({500}, 1, 2)), grad, stream()), k = key(12);
  const Var y = dropout(x, 0.5, k);
  const std::vector<float> values = read(y);
  backward(sum(y));
  const std::vector<float> slopes = to_host<float>(grad, stream());
  for (std::size_t i = 0; i < slopes.size(); ++i) EXPECT_EQ(slopes[i], values[i] == 0 ? 0.0f : 2.0f) << i;

  const Function f = [&](const Vars& in) { return dropout(square(in[0]), 0.3, k); };
  check("dropout", {random_.uniform({40}, 0.5, 1)}, f);
  const Var of_slope = Var::parameter(upload(random_.uniform({500}, 1, 2)), grad, stream());
  backward(sum(nn::gradients(sum(square(dropout(of_slope, 0.5, k))), {of_slope}).front()));
  const std::vector<float> curvatures = to_host<float>(grad, stream());
  for (std::size_t i = 0; i < slopes.size(); ++i) EXPECT_EQ(curvatures[i], values[i] == 0 ? 0.0f : 8.0f) << i;
}

// The forward pass and the backward pass of a step draw the same numbers, and neither stores a mask.
TEST_P(RandomTest, RecordedStepDropsByItsCounter) {
  const Tensor grad = allocate(DType::f32, {64}), counter = tensor({0}, {});
  const Tensor x = upload(random_.uniform({64}, 1, 2));
  Var y;
  const Graph graph = rules::record(stream(), [&] {
    const Var step(counter, stream());
    y = dropout(Var::parameter(x, grad, stream()), 0.5, fold_in(1234, step));
    backward(sum(y * y));
  });
  for (const Program::Node& node : graph.program().nodes()) {
    for (const Tensor& write : node.writes) EXPECT_NE(write.dtype(), DType::boolean) << node.op;
  }
  std::set<std::vector<float>> masks;
  for (std::int64_t step = 0; step < 3; ++step) {
    stream().copy(counter.raw(), &step, sizeof step);
    graph.replay(stream());
    const std::vector<float> slopes = to_host<float>(grad, stream());
    const std::vector<float> now = read(dropout(Var(x, stream()), 0.5, fold_in(1234, Var(counter, stream()))));
    EXPECT_EQ(read(y), now);
    for (std::size_t i = 0; i < now.size(); ++i) EXPECT_EQ(slopes[i], 4 * now[i]) << i;
    masks.insert(now);
  }
  EXPECT_EQ(masks.size(), 3u);
}

TEST_P(RandomTest, BadArguments) {
  const Var x(upload({DType::f32, {2}, {1, 2}}), stream()), k = key(0), two(tensor({1, 2}, {2}), stream());
  expect_error(ErrorCode::dtype_mismatch, {"random_uniform", "key is f32", "expected an integer"},
               [&] { (void)random_uniform(sum(x), {2}); });
  expect_error(ErrorCode::dtype_mismatch, {"random_normal", "key is i32", "expected i64"}, [&] {
    (void)random_normal(Var(upload({DType::i32, {}, {1}}), stream()), {2});
  });
  expect_error(ErrorCode::shape_mismatch, {"random_uniform", "key", "(2,)", "expected a scalar"},
               [&] { (void)random_uniform(two, {2}); });
  expect_error(ErrorCode::invalid_argument, {"fold_in", "number is 0.5", "expected an integer"},
               [&] { (void)fold_in(k, 0.5); });
  const Var constant_key(tensor({1}, {}));
  const auto expect_advice = [this](const std::string& op, const auto& f) {
    expect_error(ErrorCode::invalid_argument, {op + ": no argument is on a stream", "s.key(\"noise\")"}, f);
  };
  expect_advice("random_uniform", [&] { (void)random_uniform(constant_key, {2}); });
  expect_advice("random_normal", [&] { (void)random_normal(constant_key, {2}); });
  expect_advice("random_bernoulli", [&] { (void)random_bernoulli(3, 0.5, {2}); });
  expect_advice("fold_in", [&] { (void)fold_in(3, 4); });
  expect_error(ErrorCode::invalid_argument, {"random_uniform", "[2, 2)"}, [&] { (void)random_uniform(k, {2}, 2, 2); });
  expect_error(ErrorCode::invalid_argument, {"random_uniform"}, [&] { (void)random_uniform(k, {2}, -3e38, 3e38); });
  expect_error(ErrorCode::invalid_argument, {"random_normal", "-1"}, [&] { (void)random_normal(k, {2}, 0, -1); });
  expect_error(ErrorCode::invalid_argument, {"random_bernoulli", "1.5"}, [&] { (void)random_bernoulli(k, 1.5, {2}); });
  expect_error(ErrorCode::shape_mismatch, {"random_bernoulli", "(2,)", "(3,)"},
               [&] { (void)random_bernoulli(k, x, {3}); });
  for (const double rate : {-0.1, 1.0, test::kNaN}) {
    expect_error(ErrorCode::invalid_argument, {"dropout", "rate", "[0, 1)"}, [&] { (void)dropout(x, rate, k); });
  }
  expect_error(ErrorCode::dtype_mismatch, {"dropout", "i64"}, [&] { (void)dropout(k, 0.5, k); });
}

INSTANTIATE_TEST_SUITE_P(Devices, RandomTest, test::kDevices, test::device_name);

}  // namespace
}  // namespace giro::nn
