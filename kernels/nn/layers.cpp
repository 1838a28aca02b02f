#include <giro/kernels/nn/layers.h>

#include <fmt/format.h>

#include <algorithm>

#include <giro/runtime/error.h>

namespace giro::nn {
namespace {

class Sequential {
 public:
  using OfGiro = void;  // see Layer::apply
  explicit Sequential(std::vector<Layer> layers) {
    std::map<std::string, int> counts;
    for (Layer& layer : layers) {
      std::string child = fmt::format("{}{}", layer.name(), counts[layer.name()]++);
      children_.push_back({std::move(child), std::move(layer)});
    }
  }

  std::string name() const { return "sequential"; }
  Shape init(ParamSpecs& specs, const Shape& input) const {
    Shape shape = input;
    for (const auto& [child, layer] : children_) {
      ParamSpecs below = specs.below(child);
      shape = layer.init(below, shape);
    }
    return shape;
  }
  Var apply(const Params& params, const Var& x) const {
    Var y = x;
    for (const auto& [child, layer] : children_) y = layer.apply(params.below(child), y);
    return y;
  }

 private:
  std::vector<std::pair<std::string, Layer>> children_;
};

struct Scale {
  using OfGiro = void;
  double factor;
  std::string name() const { return "scale"; }
  Shape init(ParamSpecs&, const Shape& input) const { return input; }
  Var apply(const Params&, const Var& x) const { return scale(x, factor); }
};

struct Flatten {
  using OfGiro = void;
  std::string name() const { return "flatten"; }
  Shape init(ParamSpecs&, const Shape& input) const {
    if (input.rank() == 0) throw Error(ErrorCode::shape_mismatch, "flatten: the input is a scalar, expected (N, ...)");
    return {input[0], input.drop_front().count()};
  }
  Var apply(const Params&, const Var& x) const { return flatten(x); }
};

struct Activate {
  using OfGiro = void;
  std::string kind;
  Activation f;
  std::string name() const { return kind; }
  Shape init(ParamSpecs&, const Shape& input) const { return input; }
  Var apply(const Params&, const Var& x) const { return activation(x, f); }
};

struct Dense {
  using OfGiro = void;
  std::int64_t features;
  DenseOptions options;

  std::string name() const { return "dense"; }
  Shape init(ParamSpecs& specs, const Shape& input) const {
    if (input.rank() != 2) {
      throw Error(ErrorCode::shape_mismatch,
                  fmt::format("dense({}): the input is {}, expected (N, I); is a flatten missing?", features,
                              to_string(input)));
    }
    const Fans fans{input[1], features};
    specs.add("kernel", {input[1], features}, fans, options.kernel_init);
    if (options.use_bias) specs.add("bias", {features}, fans, options.bias_init);
    return {input[0], features};
  }
  Var apply(const Params& params, const Var& x) const {
    return dense(x, params["kernel"], options.use_bias ? params["bias"] : Var(), options.activation);
  }
};

struct Conv {
  using OfGiro = void;
  std::int64_t features;
  std::array<std::int64_t, 2> kernel_size;
  ConvOptions options;

  Conv2dOptions placement(const Shape& input) const {
    if (options.padding == Padding::valid) return {.stride = options.strides};
    return same_padding(input[1], input[2], kernel_size, options.strides);
  }
  Shape kernel_shape(const Shape& input) const { return {features, kernel_size[0], kernel_size[1], input[3]}; }

  std::string name() const { return "conv"; }
  Shape init(ParamSpecs& specs, const Shape& input) const {
    if (input.rank() != 4) {
      throw Error(ErrorCode::shape_mismatch,
                  fmt::format("conv({}): the input is {}, expected (N, H, W, C)", features, to_string(input)));
    }
    const std::int64_t window = kernel_size[0] * kernel_size[1];
    const Fans fans{window * input[3], window * features};
    specs.add("kernel", kernel_shape(input), fans, options.kernel_init);
    if (options.use_bias) specs.add("bias", {features}, fans, options.bias_init);
    return conv2d_shape(input, kernel_shape(input), placement(input));
  }
  Var apply(const Params& params, const Var& x) const {
    return conv2d(x, params["kernel"], options.use_bias ? params["bias"] : Var(), placement(x.shape()),
                  options.activation);
  }
};

struct Pool {
  using OfGiro = void;
  std::string kind;
  Var (*op)(const Var& x, const PoolOptions& options, Where where);
  PoolOptions options;
  std::string name() const { return kind; }
  Shape init(ParamSpecs&, const Shape& input) const { return pool_shape(input, options); }
  Var apply(const Params&, const Var& x) const { return op(x, options, {}); }
};

PoolOptions pool_options(std::array<std::int64_t, 2> window, std::array<std::int64_t, 2> strides) {
  const bool given = strides[0] != 0 || strides[1] != 0;
  return {.window = window, .stride = given ? strides : window};
}

std::int64_t checked_features(const char* layer, std::int64_t features) {
  if (features < 1) {
    throw Error(ErrorCode::invalid_argument, fmt::format("{}: {} features, expected at least 1", layer, features));
  }
  return features;
}

}  // namespace

Layer sequential(std::vector<Layer> layers) { return Sequential(std::move(layers)); }
Layer scale(double factor) { return Scale{factor}; }
Layer flatten() { return Flatten{}; }
Layer relu() { return Activate{"relu", Activation::relu}; }
Layer gelu() { return Activate{"gelu", Activation::gelu}; }
Layer tanh() { return Activate{"tanh", Activation::tanh}; }
Layer sigmoid() { return Activate{"sigmoid", Activation::sigmoid}; }

Layer dense(std::int64_t features, const DenseOptions& options) {
  return Dense{checked_features("dense", features), options};
}

Layer conv(std::int64_t features, std::array<std::int64_t, 2> kernel_size, const ConvOptions& options) {
  const auto& strides = options.strides;
  if (std::min({kernel_size[0], kernel_size[1], strides[0], strides[1]}) < 1) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("conv({}): a kernel of ({}, {}) with strides ({}, {}), expected at least 1 each", features,
                            kernel_size[0], kernel_size[1], strides[0], strides[1]));
  }
  return Conv{checked_features("conv", features), kernel_size, options};
}

Layer avg_pool(std::array<std::int64_t, 2> window, std::array<std::int64_t, 2> strides) {
  return Pool{"avg_pool", &avg_pool, pool_options(window, strides)};
}

Layer max_pool(std::array<std::int64_t, 2> window, std::array<std::int64_t, 2> strides) {
  return Pool{"max_pool", &max_pool, pool_options(window, strides)};
}

}  // namespace giro::nn
