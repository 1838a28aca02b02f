#include <giro/kernels/nn/elementwise.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/kernels/nn/gradient_test.h"

namespace giro::nn {
namespace {

using test::Array, test::kInfinity, test::kNaN;

class ElementwiseTest : public GradientTest {};

TEST_P(ElementwiseTest, ShapesBroadcastLikeNumPy) {
  const Var column = value(DType::f32, {2, 1}, {10, 20}), row = value(DType::f32, {3}, {1, 2, 3});
  const Var scalar = value(DType::f32, {}, {100}), empty = value(DType::f32, {0, 3}, {});
  EXPECT_EQ((column + row).shape(), (Shape{2, 3}));
  EXPECT_EQ(read(column + row), (Doubles{11, 12, 13, 21, 22, 23}));
  EXPECT_EQ(read(row - column), (Doubles{-9, -8, -7, -19, -18, -17}));
  EXPECT_EQ(read(scalar * column), (Doubles{1000, 2000}));
  EXPECT_EQ(read(where(row > 1.5, column, -scalar)), (Doubles{-100, 10, 10, -100, 20, 20}));
  EXPECT_EQ((empty + row).shape(), (Shape{0, 3}));
  EXPECT_EQ(read(broadcast_to(row, {2, 2, 3})), (Doubles{1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3}));
}

TEST_P(ElementwiseTest, DtypesPromoteToTheWider) {
  const auto one = [&](DType dtype) { return value(dtype, {1}, {1}); };
  const Var byte = one(DType::u8), word = one(DType::i32), half = one(DType::f16), bfloat = one(DType::bf16);
  EXPECT_EQ((byte + word).dtype(), DType::i32);
  EXPECT_EQ((byte + one(DType::i64)).dtype(), DType::i64);
  EXPECT_EQ((one(DType::i64) + half).dtype(), DType::f16);
  EXPECT_EQ((half + bfloat).dtype(), DType::f32);
  EXPECT_EQ((bfloat + one(DType::f32)).dtype(), DType::f32);
  EXPECT_EQ((one(DType::f32) + one(DType::f64)).dtype(), DType::f64);
  EXPECT_EQ((byte + 2).dtype(), DType::u8);
  EXPECT_EQ((byte * 0.5).dtype(), DType::f32);
  EXPECT_EQ((bfloat * 0.5).dtype(), DType::bf16);
  EXPECT_EQ((word / 2).dtype(), DType::f32);
  EXPECT_EQ(read(value(DType::i32, {1}, {7}) / 2), Doubles{3.5});
  EXPECT_EQ((word < 0.5).dtype(), DType::boolean);
  EXPECT_EQ((one(DType::boolean) + one(DType::boolean)).dtype(), DType::i32);
  EXPECT_EQ(exp(byte).dtype(), DType::f32);
}

TEST_P(ElementwiseTest, NumbersWorkOnEitherSide) {
  const Var x = value(DType::f32, {3}, {1, 2, -4});
  EXPECT_EQ(read(1 - x), (Doubles{0, -1, 5}));
  EXPECT_EQ(read(2 / x), (Doubles{2, 1, -0.5}));
  EXPECT_EQ(read(3.f * x + 1), (Doubles{4, 7, -11}));
  EXPECT_EQ(read(x.value() * x), (Doubles{1, 4, 16}));
  EXPECT_EQ(read(power(x, 2)), (Doubles{1, 4, 16}));
  EXPECT_EQ(read(clamp(x, -1, 1.5)), (Doubles{1, 1.5, -1}));
  EXPECT_EQ(read(quotient(value(DType::i32, {2}, {7, -7}), 2)), (Doubles{3, -3}));
  EXPECT_EQ(read(remainder(value(DType::i64, {2}, {7, -7}), 2)), (Doubles{1, -1}));
}

TEST_P(ElementwiseTest, NaNAndInfinitiesPassThrough) {
  const Var x = value(DType::f32, {5}, {kNaN, kInfinity, -kInfinity, 0, 1});
  const auto same = [](const Doubles& a, const Doubles& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](double l, double r) { return l == r || (l != l && r != r); });
  };
  EXPECT_TRUE(same(read(relu(x)), {kNaN, kInfinity, 0, 0, 1}));
  EXPECT_TRUE(same(read(maximum(x, 0.5)), {kNaN, kInfinity, 0.5, 0.5, 1}));
  EXPECT_TRUE(same(read(minimum(0.5, x)), {kNaN, 0.5, -kInfinity, 0, 0.5}));
  EXPECT_TRUE(same(read(exp(x)), {kNaN, kInfinity, 0, 1, read(exp(x))[4]}));
  EXPECT_TRUE(same(read(log(x)), {kNaN, kInfinity, kNaN, -kInfinity, 0}));
  EXPECT_TRUE(same(read(sqrt(x)), {kNaN, kInfinity, kNaN, 0, 1}));
  EXPECT_TRUE(same(read(tanh(x)), {kNaN, 1, -1, 0, read(tanh(x))[4]}));
  EXPECT_TRUE(same(read(1 / x), {kNaN, 0, 0, kInfinity, 1}));
  EXPECT_TRUE(same(read(sign(x)), {kNaN, 1, -1, 0, 1}));
  EXPECT_EQ(read(is_finite(x)), (Doubles{0, 0, 0, 1, 1}));
  EXPECT_EQ(read(is_nan(x)), (Doubles{1, 0, 0, 0, 0}));
  EXPECT_EQ(read(x == x), (Doubles{0, 1, 1, 1, 1}));
  EXPECT_EQ(read(logical_or(is_nan(x), x > 0)), (Doubles{1, 1, 0, 0, 1}));
}

// An infinite or NaN gradient does not pass through a relu with a zero or negative input.
TEST_P(ElementwiseTest, ReluOfNegativesHasNoGradient) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Array given{dtype, {4}, {-1, 0, -0.0, 2}};
    const Var x = Var::parameter(upload(given), upload(given), stream());
    const Var slopes = value(dtype, {4}, {kInfinity, kNaN, kInfinity, kInfinity});
    const Var loss = cast(sum(relu(x) * slopes), DType::f32);
    EXPECT_EQ(read(nn::gradients(loss, {x}).front()), (Doubles{0, 0, 0, kInfinity})) << name_of(dtype);
  }
}

TEST_P(ElementwiseTest, ViewsReadTheirElements) {
  const Var x = value(DType::f32, {2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(read(transpose(x)), (Doubles{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(transpose(x).shape(), (Shape{3, 2}));
  EXPECT_EQ(read(transpose(x.reshape({1, 2, 3}), {2, 0, 1})), (Doubles{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(read(flip(x, {1})), (Doubles{3, 2, 1, 6, 5, 4}));
  EXPECT_EQ(read(flip(x, {0, -1})), (Doubles{6, 5, 4, 3, 2, 1}));
}

TEST_P(ElementwiseTest, GradientsOfBroadcastsAreSums) {
  const Array matrix = random_.uniform({3, 4}, 0.5, 2), row = random_.uniform({4}, 0.5, 2);
  const Array column = random_.uniform({3, 1}, 0.5, 2), scalar = random_.uniform({}, 0.5, 2);
  check("a + row", {matrix, row}, [](const Vars& p) { return p[0] + p[1]; });
  check("row a", {row, matrix}, [](const Vars& p) { return p[0] * p[1]; });
  if (device().is_cuda()) return;  // the other gradients consist of the same ops, and each would need kernels
  check("column / row", {column, row}, [](const Vars& p) { return p[0] / p[1]; });
  check("scalar - a", {scalar, matrix}, [](const Vars& p) { return p[0] - p[1]; });
  check("broadcast_to", {column}, [](const Vars& p) { return broadcast_to(p[0], {2, 3, 4}); });
  check("transpose", {matrix}, [](const Vars& p) { return transpose(p[0]) * p[0].reshape({4, 3}); });
  check("transpose of 3", {random_.uniform({2, 3, 2})}, [](const Vars& p) { return transpose(p[0], {1, 2, 0}); });
  check("flip", {matrix}, [](const Vars& p) { return flip(p[0], {1}) * p[0]; });
  check("2 ^ x", {row}, [](const Vars& p) { return power(2, p[0]); });
  check("x ^ 2.5", {row}, [](const Vars& p) { return power(p[0], 2.5); });
}

TEST_P(ElementwiseTest, DerivativesOfPowersAreRightAtZero) {
  const Tensor grad = allocate(DType::f32, {2});
  const Var x = Var::parameter(upload({DType::f32, {2}, {0, 2}}), grad, stream());
  const auto derivatives = [&](double exponent) {
    const Var first = nn::gradients(sum(power(x, exponent)), {x}).front();
    return std::pair(read(first), read(nn::gradients(sum(first), {x}).front()));
  };
  EXPECT_EQ(derivatives(2), (std::pair{Doubles{0, 4}, Doubles{2, 2}}));
  EXPECT_EQ(derivatives(3), (std::pair{Doubles{0, 12}, Doubles{0, 12}}));
  EXPECT_EQ(derivatives(1), (std::pair{Doubles{1, 1}, Doubles{0, 0}}));
  EXPECT_EQ(read(nn::gradients(sum(power(x, 0)), {x}).front()), (Doubles{0, 0}));
}

TEST_P(ElementwiseTest, IntegersAreComparedExactly) {
  const Tensor big = upload({DType::i64, {1}, {0x1p53}});
  EXPECT_EQ(read(Var(big, stream()) == (std::int64_t{1} << 53)), Doubles{1});
  EXPECT_EQ(read(Var(big, stream()) == (std::int64_t{1} << 53) + 1), Doubles{0});
}

TEST_P(ElementwiseTest, ChoiceBetweenSignedZeros) {
  const Var zeros = value(DType::f32, {2}, {0.0, -0.0}), turned = value(DType::f32, {2}, {-0.0, 0.0});
  const auto signs = [&](const Var& y) {
    const Doubles values = read(y);
    return std::pair(std::signbit(values[0]), std::signbit(values[1]));
  };
  EXPECT_EQ(signs(maximum(zeros, turned)), (std::pair{false, true}));
  EXPECT_EQ(signs(minimum(zeros, turned)), (std::pair{false, true}));
}

TEST_P(ElementwiseTest, RejectsMismatchedArguments) {
  const Var x = value(DType::f32, {2, 3}, Doubles(6)), y = value(DType::f32, {2}, Doubles(2));
  const Var integers = value(DType::i32, {3}, Doubles(3)), bytes = value(DType::u8, {3}, Doubles(3));
  expect_error(ErrorCode::shape_mismatch, {"add", "(2, 3)", "(2,)", "axis 1 from the end is 3 and 2"},
               [&] { (void)(x + y); });
  expect_error(ErrorCode::dtype_mismatch, {"where", "f32", "bool"}, [&] { (void)where(x, x, x); });
  expect_error(ErrorCode::dtype_mismatch, {"logical_and", "f32", "bool"}, [&] { (void)logical_and(x, x); });
  expect_error(ErrorCode::dtype_mismatch, {"quotient", "f32", "i32, i64, u8"}, [&] { (void)quotient(x, 2); });
  expect_error(ErrorCode::invalid_argument, {"quotient", "number 0"}, [&] { (void)quotient(integers, 0); });
  expect_error(ErrorCode::invalid_argument, {"less", "300", "u8", "255"}, [&] { (void)(bytes < 300); });
  expect_error(ErrorCode::invalid_argument, {"no stream"}, [&] { (void)exp(2.0); });
  expect_error(ErrorCode::shape_mismatch, {"broadcast_to", "(2,)", "(3,)"}, [&] { (void)broadcast_to(y, {3}); });
  expect_error(ErrorCode::invalid_argument, {"flip", "axis 2", "(2, 3)"}, [&] { (void)flip(x, {2}); });
  expect_error(ErrorCode::invalid_argument, {"flip", "axis -1", "twice"}, [&] { (void)flip(x, {1, -1}); });
  expect_error(ErrorCode::invalid_argument, {"transpose", "1 axes", "all 2"}, [&] { (void)transpose(x, {1}); });
}

INSTANTIATE_TEST_SUITE_P(Devices, ElementwiseTest, test::kDevices, test::device_name);

}  // namespace
}  // namespace giro::nn
