#include <giro/kernels/nn/reduce.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include <giro/kernels/nn/functional.h>
#include <giro/runtime/program/graph.h>
#include <giro/runtime/program/program.h>

#include "kernels/nn/apply.h"
#include "kernels/rules/record.h"
#include "tests/kernels/nn/gradient_test.h"

namespace giro::nn {
namespace {

using test::Array, test::kInfinity, test::kNaN;

class ReduceTest : public GradientTest {};

TEST_P(ReduceTest, ReducesAnyAxes) {
  const Var x = value(DType::f32, {2, 3, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  EXPECT_EQ(sum(x, {1}).shape(), (Shape{2, 1, 2}));
  EXPECT_EQ(read(sum(x, {1})), (Doubles{9, 12, 27, 30}));
  EXPECT_EQ(sum(x, Axes{0}.dropped()).shape(), (Shape{3, 2}));
  EXPECT_EQ(read(sum(x, {0})), (Doubles{8, 10, 12, 14, 16, 18}));
  EXPECT_EQ(read(sum(x, {0, -1})), (Doubles{18, 26, 34}));
  EXPECT_EQ(sum(x).shape(), Shape{});
  EXPECT_EQ(read(sum(x)), Doubles{78});
  EXPECT_EQ(read(mean(x, {-1})), (Doubles{1.5, 3.5, 5.5, 7.5, 9.5, 11.5}));
  EXPECT_EQ(read(product(x, {1, 2})), (Doubles{720, 665280}));
  EXPECT_EQ(read(max(x, {0, 2})), (Doubles{8, 10, 12}));
  EXPECT_EQ(read(min(x, {1})), (Doubles{1, 2, 7, 8}));
  EXPECT_EQ(read(argmax(x, {1})), (Doubles{2, 2, 2, 2}));
  EXPECT_EQ(read(argmin(-x, {0, 1, 2})), Doubles{11});
  EXPECT_EQ(read(any(x > 11.5, {1})), (Doubles{0, 0, 0, 1}));
  EXPECT_EQ(read(all(x > 1.5, {0})), (Doubles{0, 1, 1, 1, 1, 1}));
  EXPECT_EQ(read(variance(x, {1})), (Doubles{8.0f / 3, 8.0f / 3, 8.0f / 3, 8.0f / 3}));
  EXPECT_EQ(read(sum(x, std::initializer_list<int>{})), read(x));
}

TEST_P(ReduceTest, DtypesOfSums) {
  const Var bytes = value(DType::u8, {2}, {200, 100}), flags = value(DType::boolean, {3}, {1, 0, 1});
  EXPECT_EQ(sum(bytes).dtype(), DType::i64);
  EXPECT_EQ(read(sum(bytes)), Doubles{300});
  EXPECT_EQ(read(sum(flags)), Doubles{2});
  EXPECT_EQ(read(mean(bytes, {0})), Doubles{150});
  const Var halves = value(DType::bf16, {2, 2}, {1, 256, 2, 256});
  EXPECT_EQ(sum(halves, {1}).dtype(), DType::f32);
  EXPECT_EQ(read(sum(halves, {1})), (Doubles{257, 258}));
  EXPECT_EQ(max(halves, {1}).dtype(), DType::bf16);
}

TEST_P(ReduceTest, LongAxesAreSummedAlmostAsInDouble) {
  for (const Shape& shape : {Shape{3, 5'000}, Shape{5'000, 3}, Shape{40, 5, 300}}) {
    const Array x = random_.uniform(shape, 0, 1);
    for (const Axes& axes : {Axes{0}, Axes{-1}, Axes{0, -1}}) {
      const Doubles actual = read(sum(Var(upload(x), stream()), axes));
      const Doubles exact = read(sum(Var(upload({DType::f64, shape, x.values}), stream()), axes));
      for (std::size_t i = 0; i < exact.size(); ++i) EXPECT_NEAR(actual[i], exact[i], 4 * test::kUnit * exact[i]);
    }
  }
}

TEST_P(ReduceTest, NaNAndInfinities) {
  const Var x = value(DType::f32, {3, 3}, {1, kNaN, 3, -kInfinity, 0, kInfinity, -kInfinity, -kInfinity, -kInfinity});
  EXPECT_TRUE(std::isnan(read(max(x, {1}))[0]));
  EXPECT_TRUE(std::isnan(read(min(x, {1}))[0]));
  EXPECT_EQ(read(argmax(x, {1})), (Doubles{1, 2, 0}));
  EXPECT_EQ(read(argmin(x, {1})), (Doubles{1, 0, 0}));
  const Doubles sums = read(logsumexp(x, {1}));
  EXPECT_TRUE(std::isnan(sums[0]));
  EXPECT_EQ(sums[1], kInfinity);
  EXPECT_EQ(sums[2], -kInfinity);
}

TEST_P(ReduceTest, LogSumOfSixteenBitsIsComputedInF32) {
  Array x = random_.uniform({6}, -2, 2);
  for (double& each : x.values) each = test::round_to(DType::bf16, each);
  const float of_f32 = static_cast<float>(read(logsumexp(value(DType::f32, {6}, x.values)))[0]);
  EXPECT_EQ(read(logsumexp(value(DType::bf16, {6}, x.values)))[0], of_f32);
}

// u8 wraps below 0.
TEST_P(ReduceTest, SoftmaxOfIntegersIsThatOfTheSameNumbersInF32) {
  const Doubles numbers{3, 9, 0, 1, 255, 254};
  for (Var (*const f)(const Operand&, const Axes&) : {&softmax, &log_softmax, &logsumexp}) {
    const Doubles expected = read(f(value(DType::f32, {2, 3}, numbers), {-1}));
    for (const DType dtype : {DType::u8, DType::i32, DType::i64}) {
      const Var y = f(value(dtype, {2, 3}, numbers), {-1});
      EXPECT_EQ(y.dtype(), DType::f32);
      EXPECT_EQ(read(y), expected) << name_of(dtype);
    }
    const Var flags = value(DType::boolean, {4}, {1, 0, 0, 1});
    EXPECT_EQ(read(f(flags, {0})), read(f(cast(flags, DType::f32), {0})));
  }
}

TEST_P(ReduceTest, NormsNeitherOverflowNorUnderflow) {
  for (const double size : {1.0, 5e37, 1e20, 1e-25, 1e-38}) {
    const Array x{DType::f32, {2, 2}, {3 * size, 4 * size, 0, 0}};
    const Doubles lengths = read(norm("norm", Var(upload(x), stream()), {-1}));
    EXPECT_NEAR(lengths[0], 5 * size, 4 * test::kUnit * 5 * size);
    EXPECT_EQ(lengths[1], 0);
    const std::vector<float> slopes =
        gradients({x}, [](const Vars& p) { return norm("norm", p[0], {-1}); }, {DType::f32, {2, 1}, {1, 1}})[0];
    const float expected[] = {0.6f, 0.8f, 0, 0};
    for (std::size_t i = 0; i < 4; ++i) EXPECT_FLOAT_EQ(slopes[i], expected[i]) << size;
  }
  EXPECT_EQ(norm("norm", value(DType::f16, {2}, {300, 400})).dtype(), DType::f32);
  EXPECT_EQ(read(norm("norm", value(DType::f16, {2}, {300, 400}))), Doubles{500});
  EXPECT_EQ(read(norm("norm", value(DType::u8, {2}, {30, 40}))), Doubles{50});
}

// Fused, the CPU converts, squares and adds in one loop.
TEST_P(ReduceTest, SquaresInF64HaveTheSameBitsFused) {
  for (const Shape& shape : {Shape{3, 5'000}, Shape{5'000, 3}, Shape{40, 33}}) {
    const Var x(upload(random_.uniform(shape)), stream());
    for (const int axis : {0, 1}) {
      const auto squares = [&] { return stop_gradient(sum(square(cast(x, DType::f64)), {axis})); };
      Var fused;
      const Graph graph = rules::record(stream(), [&] { fused = squares(); });
      graph.replay(stream());
      EXPECT_EQ(graph.program().nodes().size(), 1u);
      EXPECT_EQ(read(fused), read(squares()));
    }
  }
}

TEST_P(ReduceTest, EmptyInputs) {
  const Var x = value(DType::f32, {0, 2}, {});
  EXPECT_EQ(read(sum(x, {0})), (Doubles{0, 0}));
  EXPECT_EQ(read(product(x, {0})), (Doubles{1, 1}));
  EXPECT_EQ(sum(x, {1}).shape(), (Shape{0, 1}));
  EXPECT_TRUE(std::isnan(read(mean(x, {0}))[0]));
  expect_error(ErrorCode::invalid_argument, {"max", "(0, 2)", "at least one element"}, [&] { (void)max(x, {0}); });
  EXPECT_EQ(softmax(x, {0}).shape(), (Shape{0, 2}));
  EXPECT_EQ(log_softmax(x, {0}).shape(), (Shape{0, 2}));
  EXPECT_EQ(read(logsumexp(x, {0})), (Doubles{-test::kInfinity, -test::kInfinity}));
  EXPECT_TRUE(std::isnan(read(variance(x, {0}))[0]));
}

TEST_P(ReduceTest, ScalarsHaveNoAxis) {
  const Var x = value(DType::f32, {}, {2});
  EXPECT_EQ(read(softmax(x, {})), Doubles{1});
  using Reduce = Var (*)(const Operand&, const Axes&);
  for (const auto& [op, reduce] : std::initializer_list<std::pair<const char*, Reduce>>{{"sum", sum},
                                                                                        {"mean", mean},
                                                                                        {"max", max},
                                                                                        {"logsumexp", logsumexp},
                                                                                        {"softmax", softmax},
                                                                                        {"log_softmax", log_softmax},
                                                                                        {"variance", variance}}) {
    expect_error(ErrorCode::invalid_argument, {std::string(op) + ": axis -1 of a scalar, which has no axes"},
                 [&] { (void)reduce(x, {-1}); });
  }
}

TEST_P(ReduceTest, Gradients) {
  const Array x = separated({3, 4}), positive = random_.uniform({3, 4}, 0.5, 2);
  for (const Axes& axes : {Axes{}, Axes{0}, Axes{-1}, Axes{0, 1}, Axes{1}.dropped()}) {
    SCOPED_TRACE(fmt::format("{} axes, all: {}", axes.axes().size(), axes.all()));
    check("sum", {x}, [&](const Vars& p) { return sum(p[0], axes); });
    if (device().is_cuda()) continue;  // the other gradients consist of the same ops, and each would need kernels
    check("mean", {x}, [&](const Vars& p) { return mean(p[0], axes); });
    check("product", {positive}, [&](const Vars& p) { return product(p[0], axes); });
    check("max", {x}, [&](const Vars& p) { return max(p[0], axes); });
    check("min", {x}, [&](const Vars& p) { return min(p[0], axes); });
    check("logsumexp", {x}, [&](const Vars& p) { return logsumexp(p[0], axes); });
    check("variance", {positive}, [&](const Vars& p) { return variance(p[0], axes); });
    check("norm", {x}, [&](const Vars& p) { return norm("norm", p[0], axes); });
  }
}

TEST_P(ReduceTest, GradientsWhereElementsAreEqualOrZero) {
  const Tensor grad = allocate(DType::f32, {4});
  const auto gradient = [&](const Doubles& values, Var (*f)(const Operand&, const Axes&)) {
    const Var x = Var::parameter(upload({DType::f32, {4}, values}), grad, stream());
    backward(f(x, {}));
    return to_host<float>(grad, stream());
  };
  EXPECT_EQ(gradient({3, 1, 3, 0}, &max), (std::vector<float>{0.5, 0, 0.5, 0}));
  EXPECT_EQ(gradient({2, 0, 3, 5}, &product), (std::vector<float>{0, 30, 0, 0}));
  EXPECT_EQ(gradient({2, 0, 0, 5}, &product), (std::vector<float>{0, 0, 0, 0}));
}

// Layers that need reductions.
TEST_P(ReduceTest, SoftmaxAndLayerNormAreExpressions) {
  const Array x = random_.uniform({3, 5}, -2, 2), scale = random_.uniform({5}, 0.5, 1.5), bias = random_.uniform({5});
  check("LayerNorm", {x, scale, bias}, [](const Vars& p) {
    const Var centered = p[0] - mean(p[0], {-1});
    return centered * rsqrt(mean(square(centered), {-1}) + 1e-5) * p[1] + p[2];
  });
  if (device().is_cuda()) return;
  check("softmax", {x}, [](const Vars& p) {
    const Var shifted = exp(p[0] - max(p[0], {-1}));
    return shifted / sum(shifted, {-1});
  });
  check("RMSNorm", {x, scale}, [](const Vars& p) { return p[0] * rsqrt(mean(square(p[0]), {-1}) + 1e-5) * p[1]; });
}

TEST_P(ReduceTest, RejectsMismatchedArguments) {
  const Var x = value(DType::f32, {2, 3}, Doubles(6));
  expect_error(ErrorCode::invalid_argument, {"sum", "axis 2", "(2, 3)", "-2 to 1"}, [&] { (void)sum(x, {2}); });
  expect_error(ErrorCode::invalid_argument, {"max", "axis -1", "twice"}, [&] { (void)max(x, {1, -1}); });
  expect_error(ErrorCode::dtype_mismatch, {"any", "f32", "bool"}, [&] { (void)any(x); });
  expect_error(ErrorCode::dtype_mismatch, {"max", "bool"}, [&] { (void)max(x > 0); });
  expect_error(ErrorCode::invalid_argument, {"sum", "number 2"}, [&] { (void)sum(2); });
}

INSTANTIATE_TEST_SUITE_P(Devices, ReduceTest, test::kDevices, test::device_name);

}  // namespace
}  // namespace giro::nn
