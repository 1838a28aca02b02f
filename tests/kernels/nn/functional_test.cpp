#include <giro/kernels/nn/functional.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include <giro/kernels/nn/var.h>

#include "tests/kernels/op_test.h"

namespace giro::nn {
namespace {

using test::Array;
using Vars = std::vector<Var>;

// The gradients of a function of Vars, against central differences of its own forward pass. The output is contracted
// with fixed weights on the host in double precision, so that the differences' noise is that of single roundings.
class FunctionalTest : public test::OpTest {
 protected:
  using Function = std::function<Var(const Vars& params)>;

  // A tensor on the device with values of its own.
  Tensor upload(const Array& array) {
    const test::Bytes bytes = test::encode(array);
    const Tensor tensor = allocate(array.dtype, array.shape);
    stream().copy(tensor.raw(), bytes.data(), bytes.size());
    return tensor;
  }

  // The gradient by each parameter, of the output weighed by `weights` and summed.
  std::vector<std::vector<float>> gradients(const std::vector<Array>& params, const Function& f, const Array& weights) {
    Vars vars;
    Tensors grads;
    for (const Array& param : params) {
      grads.push_back(allocate(DType::f32, param.shape));
      stream().fill(grads.back().raw(), 0xFF, grads.back().bytes());
      vars.push_back(Var::parameter(upload(param), grads.back(), stream()));
    }
    backward(sum(multiply(f(vars), Var(upload(weights)))));
    std::vector<std::vector<float>> values;
    for (const Tensor& grad : grads) values.push_back(to_host<float>(grad, stream()));
    return values;
  }

  void check(const std::string& name, std::vector<Array> params, const Function& f) {
    SCOPED_TRACE(name);
    const auto output = [&] {
      Vars constants;
      for (const Array& param : params) constants.emplace_back(upload(param), stream());
      const Var y = f(constants);
      EXPECT_FALSE(y.requires_grad());
      return std::pair{y.shape(), to_host<float>(y.value(), stream())};
    };
    const auto [shape, y] = output();
    const Array weights = random_.uniform(shape, 0.5, 1.5);
    double magnitude = 0;
    for (std::size_t i = 0; i < y.size(); ++i) magnitude += std::abs(weights.values[i] * static_cast<double>(y[i]));
    const std::vector<std::vector<float>> actual = gradients(params, f, weights);

    for (std::size_t p = 0; p < params.size(); ++p) {
      test::Expected expected;
      for (double& x : params[p].values) {
        const double middle = x;
        const auto at = [&](double offset) {
          x = middle + offset;
          const std::vector<float> values = output().second;
          x = middle;
          return std::inner_product(values.begin(), values.end(), weights.values.begin(), 0.0);
        };
        // Five points: the error is that of the fifth derivative times kStep^4 / 30.
        const double slope = (8 * (at(kStep) - at(-kStep)) - (at(2 * kStep) - at(-2 * kStep))) / (12 * kStep);
        expected.add(slope, 4 * test::kUnit * magnitude / kStep + 2e-5 * std::max(1.0, std::abs(slope)));
      }
      const std::vector<double> values(actual[p].begin(), actual[p].end());
      test::expect_close(fmt::format("gradient of argument {}", p), values, expected);
    }
  }

  // Values at least 0.2 from each other and from 0, in an order that is the same on every run: no difference quotient
  // crosses a kink.
  Array separated(const Shape& shape) {
    Array array{DType::f32, shape, {}};
    const auto half = static_cast<double>(shape.count()) / 2;
    for (std::int64_t i = 0; i < shape.count(); ++i) {
      array.values.push_back(0.2 * (static_cast<double>(i * 7 % shape.count()) - half) + 0.1);
    }
    return array;
  }
  // A bias that keeps half of the channels well above 0 and half well below.
  static Array far_from_zero(std::int64_t channels) {
    Array array{DType::f32, {channels}, {}};
    for (std::int64_t i = 0; i < channels; ++i) array.values.push_back(i % 2 == 0 ? 4.0 : -4.0);
    return array;
  }
  static Array small(Array array) {
    for (double& value : array.values) value = test::round_to(DType::f32, value / 4);
    return array;
  }

  Tensor allocate(DType dtype, const Shape& shape) {
    storage_.push_back(stream().allocate(static_cast<std::size_t>(shape.count()) * size_of(dtype)));
    return Tensor(storage_.back().data(), dtype, shape, device());
  }

  using Tensors = std::vector<Tensor>;
  static constexpr double kStep = 0x1p-5;

 private:
  std::vector<Buffer> storage_;
};

TEST_P(FunctionalTest, ElementwiseGradients) {
  const Array a = random_.uniform({3, 5}), b = random_.uniform({3, 5});
  check("a + b", {a, b}, [](const Vars& p) { return add(p[0], p[1]); });
  check("a + a", {a}, [](const Vars& p) { return add(p[0], p[0]); });
  check("a b", {a, b}, [](const Vars& p) { return multiply(p[0], p[1]); });
  check("a a", {a}, [](const Vars& p) { return multiply(p[0], p[0]); });
  check("-2.5 a", {a}, [](const Vars& p) { return scale(p[0], -2.5); });
  const Tensor constant = upload(random_.uniform({3, 5}));
  check("constant + a", {a}, [&](const Vars& p) { return add(constant, p[0]); });
  check("constant a", {a}, [&](const Vars& p) { return multiply(constant, p[0]); });
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
    // The smooth ones are looked at where they bend.
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

TEST_P(FunctionalTest, PoolGradients) {
  const PoolOptions plain, overlapping{.window = {3, 2}, .stride = {1, 1}};
  const Array x = random_.uniform({2, 5, 4, 3}), y = separated({2, 5, 4, 3});
  check("avg_pool", {x}, [&](const Vars& p) { return avg_pool(p[0], plain); });
  check("avg_pool, overlapping", {x}, [&](const Vars& p) { return avg_pool(p[0], overlapping); });
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
  // A diamond whose sides differ in length.
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
  expect_shape_error({4, 2}, {5, 2}, [&] { dense(x, w, b); });
  expect_error(ErrorCode::shape_mismatch, {"dense", "(2,)", "(B, I)"}, [&] { dense(b, w, b); });
  expect_shape_error({3, 5}, {4, 2}, [&] { add(x, w); });
  expect_error(ErrorCode::shape_mismatch, {"softmax_cross_entropy", "(2,)"},
               [&] { softmax_cross_entropy(b, tensor({2}, DType::u8)); });
  expect_error(ErrorCode::shape_mismatch, {"flatten"}, [&] { flatten(Var(tensor({}), stream())); });
  expect_error(ErrorCode::invalid_argument, {"stream"}, [&] { relu(tensor({2})); });
}

INSTANTIATE_TEST_SUITE_P(Devices, FunctionalTest, test::kDevices, test::device_name);

}  // namespace
}  // namespace giro::nn
