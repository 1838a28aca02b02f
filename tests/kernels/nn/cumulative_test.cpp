#include <giro/kernels/nn/cumulative.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <giro/kernels/nn/functional.h>

#include "tests/kernels/nn/gradient_test.h"

namespace giro::nn {
namespace {

using test::Array;

class CumulativeVarTest : public GradientTest {
 protected:
  // The gradient of the cumulative products, weighted by 1, 2, 3, ..., with respect to each element of a row: the
  // weighted sum of the products that contain the element, with the element left out.
  static Doubles slopes_of_products(const Doubles& x) {
    Doubles slopes(x.size());
    for (std::size_t k = 0; k < x.size(); ++k) {
      for (std::size_t i = k; i < x.size(); ++i) {
        double others = 1;
        for (std::size_t j = 0; j <= i; ++j) others *= j == k ? 1 : x[j];
        slopes[k] += static_cast<double>(i + 1) * others;
      }
    }
    return slopes;
  }
};

TEST_P(CumulativeVarTest, WorksAlongAnyAxis) {
  const Var x = value(DType::f32, {2, 3, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  EXPECT_EQ(read(cumulative_sum(x, 0)), (Doubles{1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 18}));
  EXPECT_EQ(read(cumulative_sum(x, 1)), (Doubles{1, 2, 4, 6, 9, 12, 7, 8, 16, 18, 27, 30}));
  EXPECT_EQ(read(cumulative_sum(x, -1)), (Doubles{1, 3, 3, 7, 5, 11, 7, 15, 9, 19, 11, 23}));
  EXPECT_EQ(read(cumulative_product(x, -2)), (Doubles{1, 2, 3, 8, 15, 48, 7, 8, 63, 80, 693, 960}));
  EXPECT_EQ(cumulative_sum(x, 1).shape(), (Shape{2, 3, 2}));
  for (const int axis : {0, 1, 2}) {
    EXPECT_EQ(cumulative_sum(value(DType::f32, {2, 0, 3}, {}), axis).shape(), (Shape{2, 0, 3}));
  }
}

TEST_P(CumulativeVarTest, TheFirstOfEqualMaximaGetsTheGradient) {
  const Var x = value(DType::f32, {2, 5}, {1, 3, 3, 2, 4, -1, -2, test::kNaN, 7, test::kNaN});
  const Tensor dx = tensor({2, 5});
  const Var y = cumulative_max(Var::parameter(x.value(), dx, stream()), 1);
  const Doubles found = read(y);
  EXPECT_EQ(Doubles(found.begin(), found.begin() + 7), (Doubles{1, 3, 3, 3, 4, -1, -1}));
  EXPECT_TRUE(std::all_of(found.begin() + 7, found.end(), [](double each) { return std::isnan(each); }));
  const Var slopes = value(DType::f32, {2, 5}, {1, 2, 4, 8, 16, 1, 2, 4, 8, 16});
  backward(sum(y * slopes));
  EXPECT_EQ(to_host<float>(dx, stream()), (std::vector<float>{1, 14, 0, 0, 16, 3, 0, 28, 0, 0}));
  EXPECT_EQ(read(cumulative_max(value(DType::i32, {4}, {-5, -7, 2, 1}), 0)), (Doubles{-5, -5, 2, 2}));
  EXPECT_EQ(cumulative_max(value(DType::u8, {0, 3}, {}), 0).shape(), (Shape{0, 3}));
}

TEST_P(CumulativeVarTest, Dtypes) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i32, DType::i64}) {
    const Var x = value(dtype, {3}, {1, 2, 3});
    EXPECT_EQ(cumulative_sum(x, 0).dtype(), dtype);
    EXPECT_EQ(read(cumulative_sum(x, 0)), (Doubles{1, 3, 6})) << name_of(dtype);
    EXPECT_EQ(read(cumulative_product(x, 0)), (Doubles{1, 2, 6})) << name_of(dtype);
  }
  const Var flags = value(DType::boolean, {4}, {1, 0, 1, 1}), bytes = value(DType::u8, {2}, {200, 100});
  EXPECT_EQ(cumulative_sum(flags, 0).dtype(), DType::i64);
  EXPECT_EQ(read(cumulative_sum(flags, 0)), (Doubles{1, 1, 2, 3}));
  EXPECT_EQ(read(cumulative_sum(bytes, 0)), (Doubles{200, 300}));
  // In bf16 adding 1 to 256 gives 256. Each result is rounded, but not the running sum.
  const Var halves = value(DType::bf16, {4}, {256, 1, 1, 1});
  EXPECT_EQ(read(cumulative_sum(halves, 0)), (Doubles{256, 256, 258, 260}));
}

TEST_P(CumulativeVarTest, Gradients) {
  const Array x = random_.uniform({2, 7, 3}, 0.5, 1.5);
  for (const int axis : {0, 1, 2}) {
    check("sum", {x}, [&](const Vars& in) { return cumulative_sum(square(in[0]), axis); });
    check("product", {x}, [&](const Vars& in) { return cumulative_product(in[0], axis); });
  }
}

TEST_P(CumulativeVarTest, GradientsOfGradients) {
  const Array x = random_.uniform({2, 5}, 0.75, 1.25);
  const Tensor grad = allocate(DType::f64, x.shape);
  using Op = std::function<Var(const Var&)>;
  const auto squared_slopes = [&](const Op& f, const Array& at) {
    const Var p = Var::parameter(upload({DType::f64, at.shape, at.values}), grad, stream());
    return sum(square(nn::gradients(cast(sum(f(p)), DType::f32), {p}).front()));
  };
  for (const Op& f : {Op([](const Var& p) { return cumulative_product(p, 1); }),
                      Op([](const Var& p) { return square(cumulative_sum(square(p), 1)); })}) {
    backward(cast(squared_slopes(f, x), DType::f32));
    test::Expected expected;
    for (std::size_t i = 0; i < x.values.size(); ++i) {
      const auto at = [&](double by) {
        Array shifted = x;
        shifted.values[i] += by;
        return read(squared_slopes(f, shifted)).front();
      };
      constexpr double kSmall = 0x1p-10;
      const double exact = (8 * (at(kSmall) - at(-kSmall)) - (at(2 * kSmall) - at(-2 * kSmall))) / (12 * kSmall);
      expected.add(exact, 1e-7 * std::max(1.0, std::abs(exact)));
    }
    test::expect_close("second", to_host<double>(grad, stream()), expected);
  }
}

TEST_P(CumulativeVarTest, GradientOfProductWithZeros) {
  const std::vector<Doubles> rows{
      {2, 0, 3, 4, 5}, {0, 3, 0, 2, 1}, {1, 2, 3, 4, 0}, {0, 0, 0, 0, 0}, {-2, 3, -1, 2, 5}};
  Array x{DType::f32, {5, 5}, {}};
  Doubles expected;
  for (const Doubles& row : rows) {
    x.values.insert(x.values.end(), row.begin(), row.end());
    const Doubles slopes = slopes_of_products(row);
    expected.insert(expected.end(), slopes.begin(), slopes.end());
  }
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    x.dtype = dtype;
    const Tensor grad = allocate(dtype, x.shape);
    const Var y = cumulative_product(Var::parameter(upload(x), grad, stream()), 1);
    backward(cast(sum(y * value(dtype, {5}, {1, 2, 3, 4, 5})), DType::f32));
    test::Bytes bytes(grad.bytes());
    stream().copy(bytes.data(), grad.raw(), bytes.size());
    stream().synchronize();
    test::Expected close;
    for (const double slope : expected) close.add(slope, 4 * test::unit_roundoff(dtype) * std::abs(slope));
    test::expect_close(std::string(name_of(dtype)), test::decode(dtype, bytes), close);
  }
}

TEST_P(CumulativeVarTest, BadArguments) {
  const Var x = value(DType::f32, {2, 3}, {1, 2, 3, 4, 5, 6});
  expect_error(ErrorCode::invalid_argument, {"cumulative_sum", "axis 2"}, [&] { (void)cumulative_sum(x, 2); });
  expect_error(ErrorCode::invalid_argument, {"cumulative_product", "axis 0"},
               [&] { (void)cumulative_product(sum(x), 0); });
  expect_error(ErrorCode::invalid_argument, {"cumulative_sum", "number 3"}, [&] { (void)cumulative_sum(3, 0); });
}

INSTANTIATE_TEST_SUITE_P(Devices, CumulativeVarTest, test::kDevices, test::device_name);

}  // namespace
}  // namespace giro::nn
