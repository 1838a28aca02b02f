#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include <giro/kernels/activation.h>
#include <giro/kernels/nn/functional.h>
#include <giro/kernels/nn/initializers.h>
#include <giro/kernels/nn/layer.h>

namespace giro::nn {

// Layers in sequence, each called with the results of the one before. In the tree, each has its name and a number,
// counted separately for each name: dense0, dense1.
template <class... Layers>
Layer sequential(Layers... layers);
Layer sequential(std::vector<Layer> layers);

// factor * x, in f32 unless x is bf16 or f16. scale(1 / 255.f) maps pixels to [0, 1].
Layer scale(double factor);
// (N, ...) -> (N, product of the rest).
Layer flatten();
Layer relu();
Layer gelu();
Layer tanh();
Layer sigmoid();
Layer silu();
// A function without parameters, as a layer.
Layer lambda(std::function<Var(const Var&)> f);
// In training, sets a fraction `rate`, in [0, 1), of the elements to 0 and multiplies the others by 1 / (1 - rate). The
// elements differ from step to step, but are the same on any number of ranks. In evaluation, x itself. Srivastava et
// al.: "Dropout", 2014.
Layer dropout(double rate);
// x + layer(x), where layer(x) has the shape of x.
Layer residual(const Layer& layer);
// The results of all the layers, in order. A single input goes to every layer; of several, each layer gets its own.
template <class... Layers>
Layer parallel(Layers... layers);
Layer parallel(std::vector<Layer> layers);

struct DenseOptions {
  Activation activation = Activation::none;  // applied to the product
  bool use_bias = true;
  Initializer kernel_init = lecun_normal();
  Initializer bias_init = zeros();
};
// (..., I) -> (..., features). Parameters: kernel (I, features), bias (features).
Layer dense(std::int64_t features, const DenseOptions& options = {});

// How far images are padded on each side before a window passes over them: with zeros in a convolution or an average,
// and with what no window chooses in a maximum.
class Padding {
 public:
  // ceil(size / stride) results along an axis. If the padding of an axis is odd, the extra pixel is at its end.
  static const Padding same;
  // None.
  static const Padding valid;

  // That many pixels on each side.
  constexpr Padding(std::int64_t pixels) : Padding({pixels, pixels}, {pixels, pixels}) {}
  // Each side its own: {top, bottom}, {left, right}.
  constexpr Padding(std::array<std::int64_t, 2> rows, std::array<std::int64_t, 2> columns)
      : before_{rows[0], columns[0]}, after_{rows[1], columns[1]} {}

  bool is_same() const noexcept { return is_same_; }
  // Top and left, bottom and right, unless it is `same`.
  const std::array<std::int64_t, 2>& before() const noexcept { return before_; }
  const std::array<std::int64_t, 2>& after() const noexcept { return after_; }

 private:
  struct Same {};
  constexpr Padding(Same) : Padding(0) { is_same_ = true; }

  std::array<std::int64_t, 2> before_, after_;
  bool is_same_ = false;
};
inline constexpr Padding Padding::same{Padding::Same()};
inline constexpr Padding Padding::valid{0};

struct ConvOptions {
  Activation activation = Activation::none;  // applied to the convolution
  std::array<std::int64_t, 2> strides{1, 1};
  Padding padding = Padding::same;
  bool use_bias = true;
  Initializer kernel_init = lecun_normal();
  Initializer bias_init = zeros();
};
// (N, H, W, C) -> (N, OH, OW, features). Parameters: kernel (features, KH, KW, C), bias (features). Error
// (invalid_argument) if a size, a stride or the padding is negative.
Layer conv(std::int64_t features, std::array<std::int64_t, 2> kernel_size, const ConvOptions& options = {});

// (N, H, W, C) -> (N, OH, OW, C). The strides default to the window. Each side's padding is less than the window. An
// average counts the padding as zeros, as in PyTorch and flax, or is that of the pixels alone, as in Keras.
Layer avg_pool(std::array<std::int64_t, 2> window, std::array<std::int64_t, 2> strides = {0, 0},
               const Padding& padding = Padding::valid, bool count_include_pad = true);
Layer max_pool(std::array<std::int64_t, 2> window, std::array<std::int64_t, 2> strides = {0, 0},
               const Padding& padding = Padding::valid);

// (..., I) -> (..., I): down(silu(gate(x)) up(x)), with `hidden` features between. Shazeer: "GLU variants improve
// transformer", 2020. Parameters: gate and up (I, hidden), down (hidden, I), each a dense layer's kernel, without bias.
Layer swiglu(std::int64_t hidden, const Initializer& kernel_init = lecun_normal());

template <class... Layers>
Layer parallel(Layers... layers) {
  return parallel(std::vector<Layer>{Layer(std::move(layers))...});
}
template <class... Layers>
Layer sequential(Layers... layers) {
  return sequential(std::vector<Layer>{Layer(std::move(layers))...});
}

}  // namespace giro::nn
