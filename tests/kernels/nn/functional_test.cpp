#include <giro/kernels/nn/functional.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/kernels/nn/gradient_test.h"

namespace giro::nn {
namespace {

using test::Array;

class FunctionalTest : public GradientTest {};

TEST_P(FunctionalTest, ElementwiseGradients) {
  const Array a = random_.uniform({3, 5}), b = random_.uniform({3, 5});
  check("a + b", {a, b}, [](const Vars& p) { return add(p[0], p[1]); });
  check("a + a", {a}, [](const Vars& p) { return add(p[0], p[0]); });
  check("a b", {a, b}, [](const Vars& p) { return multiply(p[0], p[1]); });
  check("a a", {a}, [](const Vars& p) { return multiply(p[0], p[0]); });
  check("-2.5 a", {a}, [](const Vars& p) { return scale(p[0], -2.5); });
  check("a - b", {a, b}, [](const Vars& p) { return subtract(p[0], p[1]); });
  check("a - a a", {a}, [](const Vars& p) { return subtract(p[0], multiply(p[0], p[0])); });
  check("a^2", {a}, [](const Vars& p) { return square(p[0]); });
  check("a + 0.5", {a}, [](const Vars& p) { return add(p[0], 0.5); });
  const Tensor constant = upload(random_.uniform({3, 5}));
  check("constant + a", {a}, [&](const Vars& p) { return add(constant, p[0]); });
  check("constant a", {a}, [&](const Vars& p) { return multiply(constant, p[0]); });
}

TEST_P(FunctionalTest, OperatorsEqualTheOps) {
  const Var a(upload({DType::f32, {3}, {1, 2, -3}}), stream()), b(upload({DType::f32, {3}, {0.5, 4, 8}}), stream());
  const auto expect = [&](const std::vector<float>& values, const Var& y) {
    EXPECT_EQ(to_host<float>(y.value(), stream()), values);
  };
  expect({1.5, 6, 5}, a + b);
  expect({1.25, 2.25, -2.75}, a + 0.25);
  expect({1.25, 2.25, -2.75}, 0.25 + a);
  expect({0.5, -2, -11}, a - b);
  expect({0.75, 1.75, -3.25}, a - 0.25);
  expect({-0.75, -1.75, 3.25}, 0.25 - a);
  expect({-1, -2, 3}, -a);
  expect({0.5, 8, -24}, a * b);
  expect({2, 4, -6}, a * 2);
  expect({2, 4, -6}, 2.f * a);
  expect({41.75}, mean(square(a - b.value())));
  expect({-0.5, 2, 11}, b.value() - a);
}

TEST_P(FunctionalTest, ActivationGradients) {
  const Array x = random_.uniform({2, 9}, -3, 3);
  check("relu", {separated({3, 6})}, [](const Vars& p) { return relu(p[0]); });
  check("gelu", {x}, [](const Vars& p) { return gelu(p[0]); });
  check("tanh", {x}, [](const Vars& p) { return tanh(p[0]); });
  check("sigmoid", {x}, [](const Vars& p) { return sigmoid(p[0]); });
  check("none", {x}, [](const Vars& p) { return activation(p[0], Activation::none); });
}

TEST_P(FunctionalTest, DenseGradients) {
  const Array x = random_.uniform({3, 5}), w = random_.uniform({5, 4}), b = far_from_zero(4);
  for (const Activation f :
       {Activation::none, Activation::relu, Activation::gelu, Activation::tanh, Activation::sigmoid}) {
    const std::string name = fmt::format("dense, activation {}", static_cast<int>(f));
    // Small arguments: smooth activations are tested where they curve.
    const Array bias = f == Activation::relu ? b : small(b);
    check(name, {small(x), w, bias}, [f](const Vars& p) { return dense(p[0], p[1], p[2], f); });
  }
  check("dense without bias", {x, w}, [](const Vars& p) { return dense(p[0], p[1], Var()); });
  const Tensor images = upload(x);
  check("dense of a constant", {w, b}, [&](const Vars& p) { return dense(images, p[0], p[1], Activation::relu); });
  const Tensor kernel = upload(w);
  check("dense with a constant kernel", {x, b}, [&](const Vars& p) { return dense(p[0], kernel, p[1]); });
  check("dense with all constant but the bias", {b},
        [&](const Vars& p) { return dense(images, kernel, p[0], Activation::relu); });
  check("w w", {random_.uniform({4, 4})}, [](const Vars& p) { return dense(p[0], p[0], Var()); });
}

TEST_P(FunctionalTest, Conv2dGradients) {
  const Array x = small(random_.uniform({2, 4, 3, 2})), w = small(random_.uniform({4, 3, 2, 2})), b = far_from_zero(4);
  const Conv2dOptions same = same_padding(4, 3, {3, 2}, {1, 1}), strided{.stride = {2, 1}};
  for (const Activation f : {Activation::none, Activation::relu, Activation::gelu, Activation::tanh}) {
    const Array bias = f == Activation::relu ? b : small(b);
    check(fmt::format("conv2d, activation {}", static_cast<int>(f)), {x, w, bias},
          [&](const Vars& p) { return conv2d(p[0], p[1], p[2], same, f); });
  }
  check("conv2d with strides", {x, w, b}, [&](const Vars& p) { return conv2d(p[0], p[1], p[2], strided); });
  check("conv2d without bias", {x, w}, [&](const Vars& p) { return conv2d(p[0], p[1], Var(), same); });
  const Tensor images = upload(x);
  check("conv2d of a constant", {w, b},
        [&](const Vars& p) { return conv2d(images, p[0], p[1], same, Activation::relu); });
  const Tensor kernel = upload(w);
  check("conv2d with a constant kernel", {x, b},
        [&](const Vars& p) { return conv2d(p[0], kernel, p[1], same, Activation::relu); });
}

TEST_P(FunctionalTest, ConvolutionsOfGroupsAndDilation) {
  const Array x = small(random_.uniform({1, 5, 4, 4})), w = small(random_.uniform({4, 2, 2, 2}));
  const Array b = random_.uniform({4});
  const Conv2dOptions options{.stride = {1, 2}, .pad_after = {1, 0}, .dilation = {2, 1}, .groups = 2};
  check("conv2d", {x, w, b}, [&](const Vars& p) { return conv2d(p[0], p[1], p[2], options); });
  check("conv2d_transpose", {x, w, b}, [&](const Vars& p) {
    return conv2d_transpose(p[0], p[1], p[2], options, {0, 1}, Activation::tanh);
  });
  check("conv1d", {small(random_.uniform({2, 6, 4})), small(random_.uniform({4, 2, 2})), b}, [](const Vars& p) {
    return conv1d(p[0], p[1], p[2], {.stride = 2, .pad_before = 1, .dilation = 2, .groups = 2});
  });
}

TEST_P(FunctionalTest, TransposedConvolutionSpreadsPixels) {
  const Var x = value(DType::f32, {1, 1, 2, 1}, {1, 10}), w = value(DType::f32, {1, 2, 3, 1}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(read(conv2d_transpose(x, w, Var(), {.stride = {1, 2}})), (Doubles{1, 2, 13, 20, 30, 4, 5, 46, 50, 60}));
  EXPECT_EQ(read(conv2d_transpose(x, w, value(DType::f32, {1}, {100}), {.stride = {1, 2}, .pad_before = {1, 1}})),
            (Doubles{105, 146, 150, 160}));
  EXPECT_EQ(conv2d_transpose(x, w, Var(), {.stride = {1, 2}}, {0, 1}).shape(), (Shape{1, 2, 6, 1}));
  EXPECT_EQ(conv2d_transpose(value(DType::f32, {0, 1, 2, 1}, {}), w, Var(), {}).shape(), (Shape{0, 2, 4, 1}));
  const Var s = value(DType::f32, {1, 4, 1}, {1, 2, 3, 4}), k = value(DType::f32, {1, 2, 1}, {1, 10});
  EXPECT_EQ(read(conv1d(s, k, Var(), {})), (Doubles{21, 32, 43}));
  EXPECT_EQ(conv1d(s, k, Var(), {}).shape(), (Shape{1, 3, 1}));
  expect_error(ErrorCode::shape_mismatch, {"conv2d_transpose", "b is", "(2,)", "shape (1,)"}, [&] {
    (void)conv2d_transpose(x, w, value(DType::f32, {2}, {1, 2}), {});
  });
  expect_error(ErrorCode::shape_mismatch, {"conv1d", "(1, 1, 2, 1)", "(N, L, C)"},
               [&] { (void)conv1d(x, k, Var(), {}); });
}

TEST_P(FunctionalTest, PoolGradients) {
  const PoolOptions plain, overlapping{.window = {3, 2}, .stride = {1, 1}};
  const PoolOptions padded{.window = {3, 2}, .stride = {2, 1}, .pad_before = {1, 1}, .pad_after = {2, 0}};
  const Array x = random_.uniform({2, 5, 4, 3}), y = separated({2, 5, 4, 3});
  check("avg_pool", {x}, [&](const Vars& p) { return avg_pool(p[0], plain); });
  check("avg_pool, overlapping", {x}, [&](const Vars& p) { return avg_pool(p[0], overlapping); });
  check("avg_pool, padded", {x}, [&](const Vars& p) { return avg_pool(p[0], padded); });
  check("max_pool, padded", {y}, [&](const Vars& p) { return max_pool(p[0], padded); });
  check("max_pool", {y}, [&](const Vars& p) { return max_pool(p[0], plain); });
  check("max_pool, overlapping", {y}, [&](const Vars& p) { return max_pool(p[0], overlapping); });
}

TEST_P(FunctionalTest, ReductionAndLossGradients) {
  const Array x = random_.uniform({4, 3}), logits = random_.uniform({4, 7}, -2, 2);
  check("sum", {x}, [](const Vars& p) { return sum(p[0]); });
  check("mean", {x}, [](const Vars& p) { return mean(p[0]); });
  for (const DType dtype : test::kLabelDTypes) {
    const Tensor labels = upload(random_.integers({4}, 0, 6, dtype));
    check("softmax_cross_entropy", {logits}, [&](const Vars& p) { return softmax_cross_entropy(p[0], labels); });
    check("mean softmax_cross_entropy", {logits},
          [&](const Vars& p) { return mean(softmax_cross_entropy(p[0], labels)); });
  }
}

// The gradient of 16-bit logits has their dtype and is rounded once; the gradient of a 16-bit parameter stays f32.
TEST_P(FunctionalTest, CrossEntropyOfSixteenBits) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const Tensor logits = upload(random_.uniform({4, 7}, -2, 2, dtype));
    const Tensor labels = upload(random_.integers({4}, 0, 6, DType::i32));
    const auto gradient = [&](const std::function<Var(const Var&)>& given) {
      const Tensor grad = allocate(DType::f32, {4, 7});
      backward(mean(softmax_cross_entropy(given(Var::parameter(logits, grad, stream())), labels)));
      return to_host<float>(grad, stream());
    };
    const std::vector<float> direct = gradient([](const Var& x) { return x; });
    const std::vector<float> converted = gradient([](const Var& x) { return cast(x, DType::f32); });
    EXPECT_EQ(direct, converted);
    const std::vector<float> narrow = gradient([](const Var& x) { return x * 1; });
    for (std::size_t i = 0; i < direct.size(); ++i) {
      EXPECT_EQ(narrow[i], static_cast<float>(test::round_to(dtype, direct[i])));
    }
  }
}

TEST_P(FunctionalTest, ReshapeGradients) {
  const Array x = random_.uniform({2, 3, 2});
  check("flatten", {x}, [](const Vars& p) { return flatten(p[0]); });
  check("reshape", {x}, [](const Vars& p) { return p[0].reshape({3, 4}); });
  check("a value and its reshape", {x}, [](const Vars& p) {
    const Var y = tanh(p[0]);
    return multiply(multiply(y.reshape({12}), sigmoid(y).reshape({12})), y.reshape({12}));
  });
}

TEST_P(FunctionalTest, ValuesUsedSeveralTimes) {
  check("x^3 + x", {random_.uniform({7})},
        [](const Vars& p) { return add(multiply(multiply(p[0], p[0]), p[0]), p[0]); });
  check("a computed value used twice", {random_.uniform({7})}, [](const Vars& p) {
    const Var y = tanh(p[0]);
    return add(multiply(y, sigmoid(y)), y);
  });
  // Two paths of different lengths that meet again.
  check("a diamond", {random_.uniform({7})}, [](const Vars& p) {
    const Var y = gelu(p[0]);
    return multiply(tanh(sigmoid(y)), y);
  });
  const Array x = random_.uniform({3, 4}), w = random_.uniform({4, 4}), b = random_.uniform({4});
  check("a layer applied twice", {x, w, b},
        [](const Vars& p) { return dense(dense(p[0], p[1], p[2], Activation::tanh), p[1], p[2], Activation::tanh); });
}

TEST_P(FunctionalTest, ScaleTakesIntegers) {
  const Tensor pixels = upload({DType::u8, {2, 3}, {0, 1, 51, 128, 200, 255}});
  const Var y = scale(Var(pixels, stream()), 1 / 255.0);
  EXPECT_EQ(y.dtype(), DType::f32);
  const std::vector<float> values = to_host<float>(y.value(), stream());
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_FLOAT_EQ(values[i], to_host<std::uint8_t>(pixels, stream())[i] / 255.0f);
  }
}

TEST_P(FunctionalTest, AccuracyIsAConstant) {
  const Tensor labels = upload({DType::u8, {4}, {0, 1, 2, 0}});
  const Tensor logits = upload({DType::f32, {4, 3}, {1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 1}});
  const Var share = accuracy(Var::parameter(logits, allocate(DType::f32, {4, 3}), stream()), labels);
  EXPECT_FALSE(share.requires_grad());
  EXPECT_EQ(to_host<float>(share.value(), stream()), std::vector{0.5f});
  const Var of_constants = accuracy(logits, Var(labels, stream()));
  EXPECT_EQ(to_host<float>(of_constants.value(), stream()), std::vector{0.5f});
  expect_error(ErrorCode::invalid_argument, {"no stream"}, [&] { accuracy(logits, labels); });
  expect_error(ErrorCode::invalid_argument, {"no parameter"}, [&] { backward(share); });
}

TEST_P(FunctionalTest, ErrorsNameBothSides) {
  const Var x(tensor({3, 5}), stream()), w(tensor({4, 2}), stream()), b(tensor({2}), stream());
  expect_error(ErrorCode::shape_mismatch, {"dense", "w is f32(4, 2)", "(5, O)"}, [&] { dense(x, w, b); });
  expect_error(ErrorCode::shape_mismatch, {"dense", "(2,)", "(..., I)"}, [&] { dense(w, b, b); });
  expect_shape_error({3, 5}, {4, 2}, [&] { add(x, w); });
  expect_error(ErrorCode::shape_mismatch, {"subtract", "(3, 5)", "(4, 2)"}, [&] { x - w; });
  const Var pixels(tensor({3, 5, 5, 1}, DType::u8), stream()), filters(tensor({2, 3, 3, 1}), stream());
  const auto expect_scale_named = [&](const std::string& op, const std::function<Var()>& run) {
    expect_error(ErrorCode::dtype_mismatch, {op, "u8", "nn::scale"}, run);
  };
  expect_scale_named("dense", [&] { return dense(flatten(pixels), w, b); });
  expect_scale_named("conv2d", [&] { return conv2d(pixels, filters, b, {}); });
  expect_scale_named("activation", [&] { return activation(pixels, Activation::relu); });
  expect_scale_named("avg_pool", [&] { return avg_pool(pixels, {}); });
  expect_scale_named("max_pool", [&] { return max_pool(pixels, {}); });
  expect_error(ErrorCode::shape_mismatch, {"softmax_cross_entropy", "(2,)"},
               [&] { softmax_cross_entropy(b, tensor({2}, DType::u8)); });
  expect_error(ErrorCode::shape_mismatch, {"flatten"}, [&] { flatten(Var(tensor({}), stream())); });
  expect_error(ErrorCode::invalid_argument, {"stream"}, [&] { relu(tensor({2})); });
}

INSTANTIATE_TEST_SUITE_P(Devices, FunctionalTest, test::kDevices, test::device_name);

}  // namespace
}  // namespace giro::nn
