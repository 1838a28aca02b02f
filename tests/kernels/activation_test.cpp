#include <giro/kernels/activation.h>

#include "tests/kernels/activation_reference.h"
#include "tests/kernels/op_test.h"

namespace giro {
namespace {

using test::Array;
using test::Expected;
using test::kUnit;
using test::name_of;
using test::Tensors;

const Shape kActivationShapes[] = {{}, {0}, {1}, {13}, {64}, {1021}, {3, 5, 7}, {2, 4099}, {100003}};
const Activation kActivations[] = {Activation::none, Activation::relu, Activation::gelu, Activation::tanh,
                                   Activation::sigmoid};

// A few units in the last place of y; gelu multiplies x by a number whose error is relative to 1.
double tolerance(Activation f, double x, double y) {
  switch (f) {
    case Activation::none:
    case Activation::relu:
      return 0;
    case Activation::gelu:
      return 8 * kUnit * std::abs(x);
    case Activation::tanh:
    case Activation::sigmoid:
      return 8 * kUnit * std::abs(y) + FLT_MIN;
  }
  return 0;
}

// 1 - y y and the like cancel, so the error is relative to 1 and not to the slope.
double slope_tolerance(Activation f, double x) {
  switch (f) {
    case Activation::none:
    case Activation::relu:
      return 0;
    case Activation::gelu:
      return 4 * kUnit * (2 + std::abs(x) * (1 + 3 * test::kGeluCubic * x * x));
    case Activation::tanh:
    case Activation::sigmoid:
      return 4 * kUnit;
  }
  return 0;
}

Expected forward(Activation f, const Array& x) {
  Expected y;
  for (const double value : x.values) {
    const double wanted = test::activate(f, value);
    y.add(wanted, tolerance(f, value, wanted));
  }
  return y;
}

Expected backward(Activation f, const Array& dy, const Array& x_or_y) {
  Expected dx;
  for (std::size_t i = 0; i < dy.values.size(); ++i) {
    dx.add(dy.values[i] * test::activation_slope(f, x_or_y.values[i]),
           std::abs(dy.values[i]) * slope_tolerance(f, x_or_y.values[i]));
  }
  return dx;
}

class ActivationTest : public test::OpTest {};
INSTANTIATE_TEST_SUITE_P(Devices, ActivationTest, test::kDevices, test::device_name);

TEST_P(ActivationTest, Forward) {
  for (const Activation f : kActivations) {
    for (const Shape& shape : kActivationShapes) {
      const Array x = random_.uniform(shape, -6, 6);
      check({.name = fmt::format("{} {}", name_of(f), to_string(shape)),
             .inputs = {x},
             .outputs = {{DType::f32, shape, {}}},
             .run = [=](const Tensors& out, const Tensors& in, const Stream& s) { activation(out[0], in[0], f, s); },
             .expected = {forward(f, x)}});
    }
    const Array x = random_.uniform({1021}, -2, 2);
    check({.name = fmt::format("{} in place", name_of(f)),
           .inputs = {},
           .outputs = {x},
           .run = [=](const Tensors& out, const Tensors&, const Stream& s) { activation(out[0], out[0], f, s); },
           .expected = {forward(f, x)}});
  }
}

// Computed in f32 from values of the dtype, and rounded once.
TEST_P(ActivationTest, SixteenBits) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const Activation f : kActivations) {
      const Array x = random_.uniform({1021}, -6, 6, dtype), dy = random_.uniform({1021}, -1, 1, dtype);
      const auto close = [&](const Expected& expected) { return expected.stored_as(dtype); };
      check({.name = fmt::format("{} {}", name_of(f), giro::name_of(dtype)),
             .inputs = {x},
             .outputs = {{dtype, x.shape, {}}},
             .run = [=](const Tensors& out, const Tensors& in, const Stream& s) { activation(out[0], in[0], f, s); },
             .expected = {close(forward(f, x))}});
      check({.name = fmt::format("{} {} backward", name_of(f), giro::name_of(dtype)),
             .inputs = {dy, x},
             .outputs = {{dtype, x.shape, {}}},
             .run = [=](const Tensors& out, const Tensors& in,
                        const Stream& s) { activation_backward(out[0], in[0], in[1], f, s); },
             .expected = {close(backward(f, dy, x))}});
    }
  }
}

TEST_P(ActivationTest, ForwardFarFromZeroAndNearIt) {
  const Array x{DType::f32,
                {17},
                {0.0, -0.0, 1e-30, -1e-30, 0x1p-20, -0x1p-20, 1e-3, -1e-3, 9, -9, 20, -20, 88, -88, 200, -1e4, 1e4}};
  Array rounded = x;
  for (double& value : rounded.values) value = test::round_to(DType::f32, value);
  for (const Activation f : kActivations) {
    check({.name = name_of(f),
           .inputs = {rounded},
           .outputs = {{DType::f32, x.shape, {}}},
           .run = [=](const Tensors& out, const Tensors& in, const Stream& s) { activation(out[0], in[0], f, s); },
           .expected = {forward(f, rounded)}});
  }
}

TEST_P(ActivationTest, Backward) {
  for (const Activation f : kActivations) {
    for (const Shape& shape : kActivationShapes) {
      Array x = random_.uniform(shape, -3, 3);
      // Away from relu's corner, where differences have no slope to find.
      for (double& value : x.values) value += value < 0 ? -0.0625 : 0.0625;
      for (double& value : x.values) value = test::round_to(DType::f32, value);
      Array x_or_y = x;
      if (!needs_input(f)) {
        for (double& value : x_or_y.values) value = test::round_to(DType::f32, test::activate(f, value));
      }
      const Array dy = random_.uniform(shape);
      const Expected expected = backward(f, dy, x_or_y);
      const auto dx = check({.name = fmt::format("{} {}", name_of(f), to_string(shape)),
                             .inputs = {dy, x_or_y},
                             .outputs = {{DType::f32, shape, {}}},
                             .run = [=](const Tensors& out, const Tensors& in,
                                        const Stream& s) { activation_backward(out[0], in[0], in[1], f, s); },
                             .expected = {expected}});
      if (shape.count() > 2000) continue;
      // Elements do not depend on each other, so each is its own function of one variable.
      for (std::size_t i = 0; i < dy.values.size(); ++i) {
        // y was rounded to f32 before the slope was taken from it.
        Expected one{{expected.values[i]}, {expected.tolerances[i] + 2 * kUnit * std::abs(dy.values[i])}};
        test::expect_finite_differences(
            fmt::format("{} element {}", name_of(f), i), {dx[0][i]}, one, {x.values[i]},
            [&](const std::vector<double>& v) { return dy.values[i] * test::activate(f, v[0]); });
      }
    }
    const Array dy = random_.uniform({1021}), x_or_y = random_.uniform({1021}, 0.1, 0.9);
    check({.name = fmt::format("{} in place", name_of(f)),
           .inputs = {x_or_y},
           .outputs = {dy},
           .run = [=](const Tensors& out, const Tensors& in,
                      const Stream& s) { activation_backward(out[0], out[0], in[0], f, s); },
           .expected = {backward(f, dy, x_or_y)}});
  }
}

TEST_P(ActivationTest, NaNStaysNaN) {
  const Array x{DType::f32, {3}, {1, test::kNaN, -1}};
  for (const Activation f : kActivations) {
    check({.name = name_of(f),
           .inputs = {x},
           .outputs = {{DType::f32, {3}, {}}},
           .run = [=](const Tensors& out, const Tensors& in, const Stream& s) { activation(out[0], in[0], f, s); },
           .expected = {forward(f, x)}});
  }
}

TEST_P(ActivationTest, SlopeOfReluAtZeroIsZero) {
  check({.name = "relu at 0",
         .inputs = {{DType::f32, {4}, {3, 3, 3, 3}}, {DType::f32, {4}, {0.0, -0.0, 0x1p-149, 1}}},
         .outputs = {{DType::f32, {4}, {}}},
         .run = [](const Tensors& out, const Tensors& in,
                   const Stream& s) { activation_backward(out[0], in[0], in[1], Activation::relu, s); },
         .expected = {{{0, 0, 3, 3}, {0, 0, 0, 0}}}});
}

TEST_P(ActivationTest, AClosedReluLetsNothingThroughNotEvenAnInfinity) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    check({.name = std::string(giro::name_of(dtype)),
           .inputs = {{dtype, {6}, {test::kInfinity, -test::kInfinity, test::kNaN, test::kInfinity, test::kNaN, -3}},
                      {dtype, {6}, {0, -0.0, 0, 1, 1, 0}}},
           .outputs = {{dtype, {6}, {}}},
           .run = [](const Tensors& out, const Tensors& in,
                     const Stream& s) { activation_backward(out[0], in[0], in[1], Activation::relu, s); },
           .expected = {{{0, 0, 0, test::kInfinity, test::kNaN, 0}, std::vector<double>(6)}}});
  }
}

TEST_P(ActivationTest, RefusesWhatDoesNotFit) {
  const Tensor a = tensor({2, 3}), b = tensor({3, 2}), d = tensor({2, 3}, DType::f64);
  const Activation f = Activation::tanh;
  expect_shape_error({2, 3}, {3, 2}, [&] { activation(a, b, f, stream()); });
  expect_shape_error({2, 3}, {3, 2}, [&] { activation_backward(a, a, b, f, stream()); });
  expect_shape_error({2, 3}, {3, 2}, [&] { activation_backward(a, b, a, f, stream()); });
  expect_dtype_error(DType::f32, DType::f64, [&] { activation(a, d, f, stream()); });
  expect_dtype_error(DType::f32, DType::f64, [&] { activation(d, d, f, stream()); });
  expect_dtype_error(DType::f32, DType::f64, [&] { activation_backward(a, a, d, f, stream()); });
  expect_device_error([&] { activation(a, elsewhere(a), f, stream()); });
  expect_device_error([&] { activation_backward(elsewhere(a), a, a, f, stream()); });
}

}  // namespace
}  // namespace giro
