#include <giro/kernels/nn/matmul.h>

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <giro/kernels/nn/functional.h>

#include "tests/kernels/nn/gradient_test.h"

namespace giro::nn {
namespace {

using test::Array;

class MatmulVarTest : public GradientTest {};

TEST_P(MatmulVarTest, Values) {
  const Var a = value(DType::f32, {2, 3}, {1, 2, 3, 4, 5, 6}), b = value(DType::f32, {3, 2}, {1, 0, 2, 1, 0, 3});
  EXPECT_EQ(read(matmul(a, b)), (Doubles{5, 11, 14, 23}));
  EXPECT_EQ(read(matmul(b, a)), (Doubles{1, 2, 3, 6, 9, 12, 12, 15, 18}));
  EXPECT_EQ(read(matmul(a, a, {.transpose_b = true})), (Doubles{14, 32, 32, 77}));
  EXPECT_EQ(read(matmul(b, a, {.transpose_a = true, .transpose_b = true})), (Doubles{5, 14, 11, 23}));
  const Var v = value(DType::f32, {3}, {1, -1, 2});
  EXPECT_EQ(matmul(v, v).shape(), Shape{});
  EXPECT_EQ(read(matmul(v, v)), Doubles{6});
  EXPECT_EQ(read(matmul(a, v)), (Doubles{5, 11}));
  EXPECT_EQ(read(matmul(v, b)), (Doubles{-1, 5}));
  // transpose_b has no effect on a vector.
  EXPECT_EQ(read(matmul(a, v, {.transpose_b = true})), (Doubles{5, 11}));
  EXPECT_EQ(
      matmul(value(DType::f32, {4, 1, 2, 3}, Doubles(24, 1)), value(DType::f32, {5, 3, 6}, Doubles(90, 1))).shape(),
      (Shape{4, 5, 2, 6}));
}

TEST_P(MatmulVarTest, Dtypes) {
  const Doubles ones(6, 1);
  for (const DType a : {DType::f32, DType::bf16, DType::f16}) {
    for (const DType b : {DType::f32, DType::bf16, DType::f16, DType::i32, DType::boolean}) {
      if (device().is_cpu() && a != DType::f32 && b != DType::f32) continue;  // oneDNN may lack them
      if (!is_floating(b) && a != DType::f32) continue;
      const Var y = matmul(value(a, {2, 3}, ones), value(b, {3, 2}, ones));
      EXPECT_EQ(y.dtype(), a == b ? a : DType::f32);
      EXPECT_EQ(read(y), Doubles(4, 3));
    }
  }
}

TEST_P(MatmulVarTest, Gradients) {
  const auto both = [&](const Shape& a, const Shape& b, const MatmulOptions& options = {}) {
    check(fmt::format("{} {}", to_string(a), to_string(b)), {random_.uniform(a), random_.uniform(b)},
          [&](const Vars& p) { return matmul(p[0], p[1], options); });
  };
  both({3, 4}, {4, 2});
  both({4, 3}, {4, 2}, {true, false});
  both({3, 4}, {2, 4}, {false, true});
  both({4, 3}, {2, 4}, {true, true});
  both({2, 3, 4}, {4, 2});
  both({2, 4, 3}, {4, 2}, {true, false});
  both({3, 4}, {2, 4, 2});
  both({2, 1, 3, 4}, {3, 4, 2});
  both({2, 1, 4, 3}, {3, 2, 4}, {true, true});
  both({4}, {4});
  both({4}, {2, 4, 3});
  both({2, 3, 4}, {4});
  check("a a^T", {random_.uniform({3, 4})}, [](const Vars& p) { return matmul(p[0], p[0], {.transpose_b = true}); });
  const Tensor constant = upload(random_.uniform({4, 3}));
  check("a constant", {random_.uniform({2, 4})}, [&](const Vars& p) { return matmul(p[0], constant); });
}

TEST_P(MatmulVarTest, GradientsOfEmptyProducts) {
  const Array a{DType::f32, {2, 0}, {}}, b{DType::f32, {0, 3}, {}};
  const std::vector<std::vector<float>> found = gradients(
      {a, b}, [](const Vars& p) { return matmul(p[0], p[1]); }, random_.uniform({2, 3}));
  EXPECT_TRUE(found[0].empty() && found[1].empty());
  const std::vector<std::vector<float>> of_no_rows =
      gradients({{DType::f32, {0, 2}, {}}, random_.uniform({2, 3})}, [](const Vars& p) { return matmul(p[0], p[1]); },
                {DType::f32, {0, 3}, {}});
  EXPECT_EQ(of_no_rows[1], std::vector<float>(6, 0));
}

// Compares second gradients with finite differences of the first ones.
class SecondGradientTest : public GradientTest {
 protected:
  void check_second(const std::string& name, const std::vector<Array>& params, const Function& f) {
    check(name, params, [&](const Vars& p) {
      Vars leaves;
      for (const Var& each : p) {
        leaves.push_back(
            each.requires_grad() ? each : Var::parameter(each.value(), allocate(DType::f32, each.shape()), stream()));
      }
      const Vars slopes = nn::gradients(sum(square(f(leaves))), leaves);
      Var total = sum(square(slopes.front()));
      for (std::size_t i = 1; i < slopes.size(); ++i) total = total + sum(square(slopes[i]));
      // For the finite differences, which need no gradient, the total is a constant.
      return p[0].requires_grad() ? total : stop_gradient(total);
    });
  }
};

TEST_P(SecondGradientTest, Matmul) {
  const Array a = small(random_.uniform({2, 3, 4})), b = small(random_.uniform({4, 2}));
  check_second("a b", {a, b}, [](const Vars& p) { return matmul(p[0], p[1]); });
  check_second("b^T a^T", {b, a}, [](const Vars& p) { return matmul(p[0], p[1], {true, true}); });
  check_second("broadcast", {small(random_.uniform({2, 1, 2, 3})), small(random_.uniform({2, 3, 2}))},
               [](const Vars& p) { return matmul(p[0], p[1]); });
}

TEST_P(SecondGradientTest, Dense) {
  check_second("dense",
               {small(random_.uniform({2, 2, 3})), small(random_.uniform({3, 2})), small(random_.uniform({2}))},
               [](const Vars& p) { return dense(p[0], p[1], p[2]); });
}

TEST_P(SecondGradientTest, Convolutions) {
  const Array x = small(random_.uniform({1, 4, 3, 2})), w = small(random_.uniform({2, 2, 2, 1}));
  const Conv2dOptions options{.stride = {2, 1}, .pad_before = {1, 0}, .groups = 2};
  check_second("conv2d", {x, w}, [&](const Vars& p) { return conv2d(p[0], p[1], Var(), options); });
  check_second("conv2d_transpose", {x, w}, [&](const Vars& p) { return conv2d_transpose(p[0], p[1], Var(), options); });
}

TEST_P(MatmulVarTest, BadArguments) {
  const Var a = value(DType::f32, {2, 3}, Doubles(6, 1)), i = value(DType::i32, {3, 2}, Doubles(6, 1));
  expect_error(ErrorCode::shape_mismatch, {"matmul", "(2, 3)", "3 and 2"}, [&] { (void)matmul(a, a); });
  expect_error(ErrorCode::dtype_mismatch, {"matmul", "i32(3, 2)", "expected dtype f32, bf16 or f16"},
               [&] { (void)matmul(i, i, {.transpose_b = true}); });
  expect_error(ErrorCode::dtype_mismatch, {"matmul", "f64"}, [&] {
    (void)matmul(a, value(DType::f64, {3, 1}, Doubles(3, 1)));
  });
  expect_error(ErrorCode::invalid_argument, {"matmul", "number 2"}, [&] { (void)matmul(a, 2); });
}

TEST_P(MatmulVarTest, DenseTakesAnyRank) {
  const Var w = value(DType::f32, {2, 3}, {1, 2, 3, 4, 5, 6}), b = value(DType::f32, {3}, {1, 0, -1});
  const Var x = value(DType::f32, {2, 1, 2}, {1, 1, 2, 0});
  EXPECT_EQ(dense(x, w, b).shape(), (Shape{2, 1, 3}));
  EXPECT_EQ(read(dense(x, w, b)), (Doubles{6, 7, 8, 3, 4, 5}));
  EXPECT_EQ(dense(value(DType::f32, {2}, {1, 1}), w, b).shape(), Shape{3});
  EXPECT_EQ(dense(value(DType::f32, {4, 0, 2}, {}), w, b).shape(), (Shape{4, 0, 3}));
  EXPECT_EQ(read(dense(value(DType::f32, {2, 2, 0}, {}), value(DType::f32, {0, 3}, {}), b)),
            (Doubles{1, 0, -1, 1, 0, -1, 1, 0, -1, 1, 0, -1}));
  expect_error(ErrorCode::shape_mismatch, {"dense", "()", "(..., I)"}, [&] { (void)dense(sum(x), w, b); });
  check("dense", {random_.uniform({2, 3, 4}), random_.uniform({4, 2}), random_.uniform({2})},
        [](const Vars& p) { return dense(p[0], p[1], p[2]); });
}

INSTANTIATE_TEST_SUITE_P(Devices, MatmulVarTest, test::kDevices, test::device_name);
INSTANTIATE_TEST_SUITE_P(Devices, SecondGradientTest, test::kDevices, test::device_name);

}  // namespace
}  // namespace giro::nn
