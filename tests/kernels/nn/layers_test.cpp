#include <giro/kernels/nn/layers.h>

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include <giro/kernels/nn/layer.h>

#include "tests/kernels/nn/leaves_of.h"
#include "tests/kernels/nn/models.h"
#include "tests/support/expect_error.h"

namespace giro::nn {
namespace {

using test::expect_error;
using Names = std::vector<std::string>;

Shape output_shape(const Layer& layer, const Shape& input) {
  Shape output;
  test::leaves_of(layer, input, Stream(Device::cpu()), &output);
  return output;
}

Names layer_names_of(const Layer& layer, const Shape& input) {
  Names names;
  for (const auto& spec : test::leaves_of(layer, input)) names.push_back(spec.name);
  return names;
}

TEST(Layers, ParametersOfTheModels) {
  EXPECT_EQ(layer_names_of(test::linear_model(), {32, 28, 28, 1}), (Names{"dense0/kernel", "dense0/bias"}));

  const auto specs = test::leaves_of(test::cnn_model(), {32, 28, 28, 1});
  const std::vector<std::pair<std::string, Shape>> expected{
      {"conv0/kernel", {32, 3, 3, 1}}, {"conv0/bias", {32}},   {"conv1/kernel", {64, 3, 3, 32}}, {"conv1/bias", {64}},
      {"dense0/kernel", {3136, 256}},  {"dense0/bias", {256}}, {"dense1/kernel", {256, 10}},     {"dense1/bias", {10}}};
  ASSERT_EQ(specs.size(), expected.size());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    EXPECT_EQ(specs[i].name, expected[i].first);
    EXPECT_EQ(specs[i].shape, expected[i].second);
  }
}

TEST(Layers, Fans) {
  const auto specs = test::leaves_of(test::cnn_model(), {32, 28, 28, 1});
  EXPECT_EQ(specs[0].fans.in, 9);
  EXPECT_EQ(specs[0].fans.out, 9 * 32);
  EXPECT_EQ(specs[2].fans.in, 9 * 32);
  EXPECT_EQ(specs[2].fans.out, 9 * 64);
  EXPECT_EQ(specs[4].fans.in, 3136);
  EXPECT_EQ(specs[4].fans.out, 256);
}

TEST(Layers, KindsAreCountedSeparately) {
  const Layer inner = sequential(dense(4), dense(3));
  EXPECT_EQ(layer_names_of(sequential(dense(6), relu(), inner, dense(2), inner), {1, 5}),
            (Names{"dense0/kernel", "dense0/bias", "sequential0/dense0/kernel", "sequential0/dense0/bias",
                   "sequential0/dense1/kernel", "sequential0/dense1/bias", "dense1/kernel", "dense1/bias",
                   "sequential1/dense0/kernel", "sequential1/dense0/bias", "sequential1/dense1/kernel",
                   "sequential1/dense1/bias"}));
}

TEST(Layers, BiasCanBeOmitted) {
  EXPECT_EQ(layer_names_of(sequential(dense(6, {.use_bias = false})), {1, 5}), Names{"dense0/kernel"});
  EXPECT_EQ(layer_names_of(sequential(conv(6, {2, 2}, {.use_bias = false})), {1, 5, 5, 2}), Names{"conv0/kernel"});
}

TEST(Layers, OutputShapes) {
  const Shape image{2, 9, 7, 3};
  EXPECT_EQ(output_shape(scale(0.5), image), image);
  EXPECT_EQ(output_shape(relu(), image), image);
  EXPECT_EQ(output_shape(flatten(), image), Shape({2, 189}));
  EXPECT_EQ(output_shape(flatten(), {5}), Shape({5, 1}));
  EXPECT_EQ(output_shape(dense(4), {2, 6}), Shape({2, 4}));
  EXPECT_EQ(output_shape(conv(8, {3, 3}), image), Shape({2, 9, 7, 8}));
  EXPECT_EQ(output_shape(conv(8, {3, 2}, {.strides = {2, 3}}), image), Shape({2, 5, 3, 8}));
  EXPECT_EQ(output_shape(conv(8, {3, 2}, {.padding = Padding::valid}), image), Shape({2, 7, 6, 8}));
  EXPECT_EQ(output_shape(conv(8, {3, 3}, {.strides = {2, 2}, .padding = 1}), image), Shape({2, 5, 4, 8}));
  EXPECT_EQ(output_shape(conv(8, {3, 2}, {.padding = {{4, 0}, {0, 1}}}), image), Shape({2, 11, 7, 8}));
  EXPECT_EQ(output_shape(avg_pool({2, 2}), image), Shape({2, 4, 3, 3}));
  EXPECT_EQ(output_shape(avg_pool({2, 2}, {2, 2}, Padding::same), image), Shape({2, 5, 4, 3}));
  EXPECT_EQ(output_shape(max_pool({3, 3}, {2, 2}, 1), image), Shape({2, 5, 4, 3}));
  EXPECT_EQ(output_shape(max_pool({3, 3}, {0, 0}, Padding{{2, 0}, {1, 1}}), image), Shape({2, 3, 3, 3}));
  EXPECT_EQ(output_shape(max_pool({3, 2}, {1, 2}), image), Shape({2, 7, 3, 3}));
  EXPECT_EQ(output_shape(test::cnn_model(), {32, 28, 28, 1}), Shape({32, 10}));
  EXPECT_EQ(output_shape(sequential(), image), image);
}

// On an even size, `same` pads an odd total behind, so with a stride of 2 its windows begin a pixel later than those of
// a padding of 1.
TEST(Layers, PaddingIsWhereItIsAsked) {
  const Stream stream{Device::cpu()};
  std::vector<float> ones(4, 1), pixels{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  const Params params({{"conv0/kernel", Var(Tensor(ones.data(), DType::f32, {1, 2, 2, 1}, Device::cpu()), stream)}},
                      stream);
  const Tensor image(pixels.data(), DType::f32, {1, 4, 4, 1}, Device::cpu());
  const auto result = [&](const Layer& layer) {
    return to_host<float>(sequential(layer)(params, image).value(), stream);
  };
  const auto sums = [&](const Padding& padding) {
    return result(conv(1, {2, 2}, {.strides = {2, 2}, .padding = padding, .use_bias = false}));
  };
  EXPECT_EQ(sums(Padding::same), (std::vector<float>{14, 22, 46, 54}));
  EXPECT_EQ(sums(1), (std::vector<float>{1, 5, 4, 14, 34, 20, 13, 29, 16}));
  EXPECT_EQ(sums({{1, 0}, {0, 0}}), (std::vector<float>{3, 7, 30, 38}));
  EXPECT_EQ(sums({{0, 0}, {0, 1}}), (std::vector<float>{14, 22, 46, 54}));
  EXPECT_EQ(result(max_pool({2, 2}, {2, 2}, Padding{{1, 0}, {0, 0}})), (std::vector<float>{2, 4, 10, 12}));
  EXPECT_EQ(result(avg_pool({2, 2}, {2, 2}, Padding{{1, 0}, {0, 0}})), (std::vector<float>{0.75, 1.75, 7.5, 9.5}));
  EXPECT_EQ(result(avg_pool({2, 2}, {2, 2}, Padding{{1, 0}, {0, 0}}, false)), (std::vector<float>{1.5, 3.5, 7.5, 9.5}));
}

TEST(Layers, ErrorsNameTheLayer) {
  expect_error(ErrorCode::shape_mismatch, {"layer 'dense0'", "dense(10)", "a scalar", "(..., I)"},
               [] { output_shape(sequential(scale(0.5), dense(10)), {}); });
  expect_error(ErrorCode::shape_mismatch, {"conv(8)", "(32, 28, 28)", "(N, H, W, C)"}, [] {
    output_shape(conv(8, {3, 3}), {32, 28, 28});
  });
  expect_error(ErrorCode::shape_mismatch, {"conv", "(2, 3, 3, 1)", "window of 4"}, [] {
    output_shape(conv(8, {4, 4}, {.padding = Padding::valid}), {2, 3, 3, 1});
  });
  expect_error(ErrorCode::shape_mismatch, {"pool", "(2, 9)"}, [] { output_shape(avg_pool({2, 2}), {2, 9}); });
  expect_error(ErrorCode::shape_mismatch, {"pool", "(2, 1, 1, 3)"}, [] {
    output_shape(max_pool({2, 2}), {2, 1, 1, 3});
  });
  expect_error(ErrorCode::shape_mismatch, {"flatten"}, [] { output_shape(flatten(), {}); });
  expect_error(ErrorCode::invalid_argument, {"dense", "0 features"}, [] { dense(0); });
  expect_error(ErrorCode::invalid_argument, {"conv", "-1 features"}, [] { conv(-1, {3, 3}); });
  expect_error(ErrorCode::invalid_argument, {"conv(4)", "(0, 3)"}, [] { conv(4, {0, 3}); });
  expect_error(ErrorCode::invalid_argument, {"conv(4)", "(0, 1)"}, [] { conv(4, {3, 3}, {.strides = {0, 1}}); });
  expect_error(ErrorCode::invalid_argument, {"pool"}, [] { output_shape(avg_pool({0, 2}), {1, 5, 5, 1}); });
  expect_error(ErrorCode::shape_mismatch, {"max_pool", "(2, 9)", "(N, H, W, C)"}, [] {
    output_shape(max_pool({2, 2}, {2, 2}, Padding::same), {2, 9});
  });
  expect_error(ErrorCode::invalid_argument, {"conv(4)", "(0, 1) of rows", "(-1, 0) of columns"}, [] {
    conv(4, {3, 3}, {.padding = {{0, 1}, {-1, 0}}});
  });
  expect_error(ErrorCode::invalid_argument, {"layer 'max_pool0'", "padding 2 and 2", "window of 2", "0 to 1"}, [] {
    output_shape(sequential(max_pool({3, 2}, {1, 1}, 2)), {1, 5, 5, 1});
  });
}

// A custom layer: x w + x, with a named parameter.
struct Residual {
  std::string name() const { return "residual"; }
  Var operator()(Scope& s, const Var& x) const {
    return dense(x, s.param("mix", {x.shape()[1], x.shape()[1]}, ones()), Var()) + x;
  }
};

TEST(Layers, UserDefinedLayer) {
  const Layer model = sequential(Residual(), Residual(), dense(2));
  const auto specs = test::leaves_of(model, {3, 2});
  EXPECT_EQ(specs[0].name, "residual0/mix");
  EXPECT_EQ(specs[1].name, "residual1/mix");

  const Stream stream{Device::cpu()};
  std::vector<float> mix{1, 2, 3, 4}, x{1, 10};
  const Params params({{"residual0/mix", Var(Tensor(mix.data(), DType::f32, {2, 2}, Device::cpu()), stream)}}, stream);
  const Var y = sequential(Residual())(params, Tensor(x.data(), DType::f32, {1, 2}, Device::cpu()));
  EXPECT_EQ(to_host<float>(y.value(), stream), (std::vector<float>{32, 52}));
}

TEST(Layers, MissingParameterNamesTheNearest) {
  const Stream stream{Device::cpu()};
  const Params params({{"dense0/kernel", Var()}, {"dense0/bias", Var()}}, stream);
  expect_error(ErrorCode::not_found, {"'dense0/kernal'", "'dense0/kernel'"}, [&] { params["dense0/kernal"]; });
  const Scope root = params;
  expect_error(ErrorCode::not_found, {"'dense0/bia'", "'dense0/bias'"},
               [&] { root.child("dense0").param("bia", {2}, zeros()); });
}

TEST(Layers, LayersAreValues) {
  const Layer model = test::cnn_model();
  const Layer copy = model;
  EXPECT_EQ(layer_names_of(copy, {1, 8, 8, 1}), layer_names_of(model, {1, 8, 8, 1}));
}

}  // namespace
}  // namespace giro::nn
