#include <giro/kernels/nn/layers.h>

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "kernels/nn/builtin.h"
#include "runtime/program/op_signature.h"

namespace giro::nn {
namespace {

struct Sequential {
  using BuiltinLayer = void;  // as builtin()'s
  std::vector<Layer> layers;
  std::size_t inputs() const { return layers.empty() ? 1 : layers.front().inputs(); }
  std::vector<Var> operator()(Scope& s, std::vector<Var> x) const {
    for (const Layer& layer : layers) x = layer(s, x);
    return x;
  }
};

// A layer without parameters.
template <class F>
Layer function(const char* name, F f) {
  return builtin(name, [f = std::move(f)](Scope&, const Var& x) { return f(x); });
}

Layer elementwise(const char* name, Var (*f)(const Operand&)) { return function(name, f); }

Var dense_with_params(const Scope& s, const Var& x, std::int64_t features, const DenseOptions& options) {
  if (x.shape().rank() == 0) throw_shape("dense({}): the input is a scalar, expected (..., I)", features);
  const std::int64_t inputs = x.shape()[-1];
  const Var kernel = s.param("kernel", {inputs, features}, options.kernel_init);
  const Var bias = options.use_bias ? s.param("bias", {features}, options.bias_init, Fans{inputs, features}) : Var();
  return dense(x, kernel, bias, options.activation);
}

void expect_images(const std::string& layer, const Var& input) {
  detail::expect_fit(layer, "the input: *(nhwc)", {&input.value()});
}

// How windows pass over images.
Conv2dOptions placed(const Shape& images, const std::array<std::int64_t, 2>& window,
                     const std::array<std::int64_t, 2>& strides, const Padding& padding) {
  if (padding.is_same()) return same_padding(images[1], images[2], window, strides);
  return {.stride = strides, .pad_before = padding.before(), .pad_after = padding.after()};
}

Layer pooling(const char* name, Var (*pool)(const Var&, const PoolOptions&, Where), std::array<std::int64_t, 2> window,
              std::array<std::int64_t, 2> strides, const Padding& padding, bool count_include_pad) {
  return function(name, [=](const Var& x) {
    expect_images(name, x);
    const bool has_strides = strides[0] != 0 || strides[1] != 0;
    const Conv2dOptions at = placed(x.shape(), window, has_strides ? strides : window, padding);
    return pool(x,
                {.window = window,
                 .stride = at.stride,
                 .pad_before = at.pad_before,
                 .pad_after = at.pad_after,
                 .count_include_pad = count_include_pad},
                Where::current());
  });
}

}  // namespace

Layer sequential(std::vector<Layer> layers) { return Layer("sequential", Sequential{std::move(layers)}); }

Layer scale(double factor) {
  return function("scale", [factor](const Var& x) { return scale(x, factor); });
}

Layer flatten() {
  return function("flatten", [](const Var& x) { return flatten(x); });
}

Layer relu() { return elementwise("relu", relu); }
Layer gelu() { return elementwise("gelu", gelu); }
Layer tanh() { return elementwise("tanh", tanh); }
Layer sigmoid() { return elementwise("sigmoid", sigmoid); }
Layer silu() { return elementwise("silu", silu); }

Layer lambda(std::function<Var(const Var&)> f) {
  return Layer("lambda", [f = std::move(f)](Scope&, const Var& x) { return f(x); });
}

Layer dropout(double rate) {
  if (!(rate >= 0 && rate < 1)) throw_invalid("dropout: a rate of {}, expected one in [0, 1)", rate);
  return builtin("dropout", [rate](Scope& s, const Var& x) {
    return s.training() && rate > 0 ? dropout(x, rate, s.key("dropout")) : x;
  });
}

Layer residual(const Layer& layer) {
  return builtin("residual", [layer](Scope& s, const Var& x) {
    const Var y = layer(s, x);
    if (y.shape() != x.shape()) {
      throw_shape("residual: the input is {}, but the layer's output is {}", to_string(x.shape()),
                  to_string(y.shape()));
    }
    return x + y;
  });
}

Layer parallel(std::vector<Layer> layers) {
  return builtin("parallel", [layers = std::move(layers)](Scope& s, const std::vector<Var>& x) {
    if (x.size() != 1 && x.size() != layers.size()) {
      throw_invalid("parallel: {} inputs for {} layers, expected one, or one per layer", x.size(), layers.size());
    }
    std::vector<Var> results;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      for (Var& y : layers[i](s, std::vector{x[x.size() == 1 ? 0 : i]})) results.push_back(std::move(y));
    }
    return results;
  });
}

Layer dense(std::int64_t features, const DenseOptions& options) {
  checked_features("dense", features);
  return builtin("dense", [=](Scope& s, const Var& x) { return dense_with_params(s, x, features, options); });
}

Layer swiglu(std::int64_t hidden, const Initializer& kernel_init) {
  checked_features("swiglu", hidden);
  return builtin("swiglu", [=](Scope& s, const Var& x) {
    const auto product = [&](const char* name, const Var& of, std::int64_t features) {
      return dense_with_params(s.child(name), of, features, {.use_bias = false, .kernel_init = kernel_init});
    };
    const Var gate = silu(product("gate", x, hidden));  // before `up`, with any compiler
    return product("down", gate * product("up", x, hidden), x.shape()[-1]);
  });
}

Layer conv(std::int64_t features, std::array<std::int64_t, 2> kernel_size, const ConvOptions& options) {
  const auto& strides = options.strides;
  if (std::min({kernel_size[0], kernel_size[1], strides[0], strides[1]}) < 1) {
    throw_invalid("conv({}): a kernel of ({}, {}) with strides ({}, {}), expected at least 1 each", features,
                  kernel_size[0], kernel_size[1], strides[0], strides[1]);
  }
  const auto &before = options.padding.before(), &after = options.padding.after();
  if (std::min({before[0], before[1], after[0], after[1]}) < 0) {
    throw_invalid("conv({}): padding ({}, {}) of rows and ({}, {}) of columns, expected at least 0 each", features,
                  before[0], after[0], before[1], after[1]);
  }
  checked_features("conv", features);
  return builtin("conv", [=](Scope& s, const Var& x) {
    const Shape& input = x.shape();
    expect_images(fmt::format("conv({})", features), x);
    const std::int64_t window = kernel_size[0] * kernel_size[1];
    const Fans fans{window * input[3], window * features};
    const Shape shape{features, kernel_size[0], kernel_size[1], input[3]};
    const Var kernel = s.param("kernel", shape, options.kernel_init, fans);
    const Var bias = options.use_bias ? s.param("bias", {features}, options.bias_init, fans) : Var();
    return conv2d(x, kernel, bias, placed(input, kernel_size, options.strides, options.padding), options.activation);
  });
}

Layer avg_pool(std::array<std::int64_t, 2> window, std::array<std::int64_t, 2> strides, const Padding& padding,
               bool count_include_pad) {
  return pooling("avg_pool", avg_pool, window, strides, padding, count_include_pad);
}

Layer max_pool(std::array<std::int64_t, 2> window, std::array<std::int64_t, 2> strides, const Padding& padding) {
  return pooling("max_pool", max_pool, window, strides, padding, true);
}

}  // namespace giro::nn
