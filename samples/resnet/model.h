#pragma once

// ResNet-18 for small images: He et al., "Deep residual learning for image recognition", 2015, with a 3 x 3 first
// convolution instead of a 7 x 7 one and a pooling.

#include <giro/giro.h>

struct ResNet18 {
  std::int64_t classes = 10, features = 64;  // features of the first stage
  bool synchronized = false;                 // whether BatchNorm uses the statistics of all ranks

  // Images (N, H, W, 3), f32 around 0 -> logits (N, classes).
  giro::nn::Var operator()(giro::nn::Scope& s, const giro::nn::Var& images) const {
    namespace nn = giro::nn;
    nn::Var x = relu(conv(s, images, features, 3, 1));
    for (int stage = 0; stage < 4; ++stage) {
      x = block(s, x, features << stage, stage == 0 ? 1 : 2);
      x = block(s, x, features << stage, 1);
    }
    return nn::dense(classes)(s, mean(x, nn::Axes{1, 2}.dropped()));
  }

 private:
  giro::nn::Var block(giro::nn::Scope& s, const giro::nn::Var& x, std::int64_t out, std::int64_t stride) const {
    const giro::nn::Var y = conv(s, relu(conv(s, x, out, 3, stride)), out, 3, 1);
    const bool fits = stride == 1 && x.shape()[3] == out;
    return relu(y + (fits ? x : conv(s, x, out, 1, stride)));
  }
  giro::nn::Var conv(
      giro::nn::Scope& s, const giro::nn::Var& x, std::int64_t out, std::int64_t size, std::int64_t stride) const {
    namespace nn = giro::nn;
    const nn::Var y = nn::conv(
        out, {size, size}, {.strides = {stride, stride}, .use_bias = false, .kernel_init = nn::he_normal()})(s, x);
    return nn::batch_norm({.momentum = 0.9, .synchronized = synchronized})(s, y);
  }
};

// Augments images for training: shifts them by up to 4 pixels and mirrors half of them. A step draws the same random
// numbers on any number of ranks.
inline giro::nn::Var augmented(giro::nn::Scope& s, const giro::nn::Var& images) {
  namespace nn = giro::nn;
  const std::int64_t rows = images.shape()[0], size = images.shape()[1];
  const auto shifted = [&](const nn::Var& x, int axis, const char* purpose) {
    const nn::Var shift = cast(random_uniform(s.key(purpose), {rows, 1, 1, 1}) * 9, giro::DType::i32);
    const nn::Var place = nn::arange(size, s.stream(), giro::DType::i32);
    const nn::Var from = shift + place.reshape(axis == 1 ? giro::Shape{1, size, 1, 1} : giro::Shape{1, 1, size, 1});
    return take_along_axis(pad(x, {.axis = axis, .before = 4, .after = 4}), broadcast_to(from, x.shape()), axis);
  };
  const nn::Var cropped = shifted(shifted(images, 1, "rows"), 2, "columns");
  const nn::Var is_mirrored = random_bernoulli(s.key("mirror"), 0.5, {rows, 1, 1, 1});
  return where(is_mirrored, flip(cropped, {2}), cropped);
}
