#pragma once

#include <cstdint>

#include <giro/kernels/nn/initializers.h>
#include <giro/kernels/nn/layer.h>

namespace giro::nn {

// Layers that normalize their input. 16-bit inputs are computed in f32 and rounded once, at the end.
// Errors: shape_mismatch for an input with too few axes; dtype_mismatch for integers.

struct NormOptions {
  double epsilon = 1e-5;  // added to the variance
  bool use_scale = true, use_bias = true;
  Initializer scale_init = ones();
  Initializer bias_init = zeros();
};

// Over the last axis of (..., C), to mean 0 and variance 1, then times scale (C) plus bias (C). Ba, Kiros, Hinton:
// "Layer normalization", 2016.
Layer layer_norm(const NormOptions& options = {});

struct RmsNormOptions {
  double epsilon = 1e-6;
  bool use_scale = true;
  Initializer scale_init = ones();
};
// Over the last axis of (..., C): x / sqrt(mean(x^2) + epsilon), times scale (C). Zhang and Sennrich: "Root mean square
// layer normalization", 2019.
Layer rms_norm(const RmsNormOptions& options = {});

// Over all axes of (N, ..., C) but the first, for each of `groups` equal groups of channels. Parameters as layer_norm.
// Wu and He: "Group normalization", 2018. Error(invalid_argument) unless groups divide C.
Layer group_norm(std::int64_t groups, const NormOptions& options = {});

struct BatchNormOptions {
  double momentum = 0.99;  // of the statistics: new = momentum * old + (1 - momentum) * batch's
  double epsilon = 1e-5;
  bool use_scale = true, use_bias = true;
  Initializer scale_init = ones();
  Initializer bias_init = zeros();
  // Whether ranks that share a batch normalize by the statistics of all its rows, rather than of their own.
  bool synchronized = false;
  // Whether training, too, uses the moving averages and leaves them as they are, as in a frozen backbone.
  bool use_moving_averages = false;
};
// Over all axes of (N, ..., C) but the last. Training uses the batch's own mean and variance, evaluation their moving
// averages, the variables batch_stats/mean (C) and batch_stats/var (C). All ranks have the same averages. Ioffe and
// Szegedy: "Batch normalization", 2015. Error(invalid_argument) in training with a single value per channel.
Layer batch_norm(const BatchNormOptions& options = {});

}  // namespace giro::nn
