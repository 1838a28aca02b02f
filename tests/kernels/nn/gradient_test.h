#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <giro/kernels/nn/functional.h>
#include <giro/kernels/nn/var.h>

#include "tests/kernels/op_test.h"

namespace giro::nn {

using Vars = std::vector<Var>;

// Compares the gradients of a function of Vars with central differences of its own forward pass. The output is
// contracted with fixed weights on the host in double precision, so the differences have noise only from roundings of
// single values.
class GradientTest : public test::OpTest {
 protected:
  using Function = std::function<Var(const Vars& params)>;
  using Doubles = std::vector<double>;

  // Copies the array into a new tensor on the device.
  Tensor upload(const test::Array& array) {
    const test::Bytes bytes = test::encode(array);
    const Tensor tensor = allocate(array.dtype, array.shape);
    stream().copy(tensor.raw(), bytes.data(), bytes.size());
    return tensor;
  }

  Var value(DType dtype, const Shape& shape, const Doubles& values) {
    return Var(upload({dtype, shape, values}), stream());
  }
  // Values of any dtype, as doubles.
  Doubles read(const Var& y) {
    test::Bytes bytes(y.value().bytes());
    stream().copy(bytes.data(), y.value().raw(), bytes.size());
    stream().synchronize();
    return test::decode(y.dtype(), bytes);
  }

  // The gradient, with respect to each parameter, of the sum of the output times `weights`.
  std::vector<std::vector<float>> gradients(const std::vector<test::Array>& params, const Function& f,
                                            const test::Array& weights) {
    Vars vars;
    Tensors grads;
    for (const test::Array& param : params) {
      grads.push_back(allocate(DType::f32, param.shape));
      stream().fill(grads.back().raw(), 0xFF, grads.back().bytes());
      vars.push_back(Var::parameter(upload(param), grads.back(), stream()));
    }
    backward(sum(multiply(f(vars), Var(upload(weights)))));
    std::vector<std::vector<float>> values;
    for (const Tensor& grad : grads) values.push_back(to_host<float>(grad, stream()));
    return values;
  }

  void check(const std::string& name, std::vector<test::Array> params, const Function& f) {
    SCOPED_TRACE(name);
    const auto output = [&] {
      Vars constants;
      for (const test::Array& param : params) constants.emplace_back(upload(param), stream());
      const Var y = f(constants);
      EXPECT_FALSE(y.requires_grad());
      return std::pair{y.shape(), to_host<float>(y.value(), stream())};
    };
    const auto [shape, y] = output();
    const test::Array weights = random_.uniform(shape, 0.5, 1.5);
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
        // Five-point formula: the error is the fifth derivative times kStep^4 / 30.
        const double slope = (8 * (at(kStep) - at(-kStep)) - (at(2 * kStep) - at(-2 * kStep))) / (12 * kStep);
        expected.add(slope, 4 * test::kUnit * magnitude / kStep + 2e-5 * std::max(1.0, std::abs(slope)));
      }
      const std::vector<double> values(actual[p].begin(), actual[p].end());
      test::expect_close(fmt::format("gradient of argument {}", p), values, expected);
    }
  }

  // Values at least 0.2 apart and not close to 0, in the same order on every run, so that no difference quotient
  // crosses a kink.
  test::Array separated(const Shape& shape) {
    test::Array array{DType::f32, shape, {}};
    const auto half = static_cast<double>(shape.count()) / 2;
    for (std::int64_t i = 0; i < shape.count(); ++i) {
      array.values.push_back(0.2 * (static_cast<double>(i * 7 % shape.count()) - half) + 0.1);
    }
    return array;
  }
  // A bias that keeps half of the channels well above 0 and the others well below.
  static test::Array far_from_zero(std::int64_t channels) {
    test::Array array{DType::f32, {channels}, {}};
    for (std::int64_t i = 0; i < channels; ++i) array.values.push_back(i % 2 == 0 ? 4.0 : -4.0);
    return array;
  }
  static test::Array small(test::Array array) {
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

}  // namespace giro::nn
