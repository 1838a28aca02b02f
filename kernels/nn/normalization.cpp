#include <giro/kernels/nn/normalization.h>

#include <functional>
#include <numeric>
#include <vector>

#include <giro/kernels/nn/functional.h>
#include <giro/runtime/step_context.h>

#include "kernels/nn/builtin.h"

namespace giro::nn {
namespace {

Var in_f32(const char* layer, const Var& x, std::size_t min_rank) {
  if (!is_floating(x.dtype())) {
    throw_error(ErrorCode::dtype_mismatch, "{}: the input is {}, expected a floating dtype", layer,
                to_string(x.value()));
  }
  if (x.shape().rank() < min_rank) {
    throw_shape("{}: the input is {}, expected at least {} ax{}", layer, to_string(x.shape()), min_rank,
                min_rank == 1 ? "is" : "es");
  }
  return is_16_bit(x.dtype()) ? cast(x, DType::f32) : x;
}

using Mean = std::function<Var(const Var&)>;

// centered / sqrt(variance + epsilon), where `centered` is x - mean(x), or x itself if is_centered is false. This
// gradient takes two means, where differentiating its parts would take four.
Var standardized(const Var& x, const Var& centered, const Var& variance, double epsilon, bool is_centered,
                 const Mean& mean_of) {
  const Var factor = rsqrt(variance + epsilon);
  return with_gradient(centered * factor, {x}, [=](const Var& y, const Var& dy, const std::vector<Var>&) {
    const Var projected = dy - y * mean_of(dy * y);
    return Gradients((is_centered ? projected - mean_of(dy) : projected) * factor);
  });
}

// y scale + bias, in the dtype of the input.
Var scaled(Scope& s, Var y, const NormOptions& options, DType dtype) {
  const Shape channels{y.shape()[-1]};
  if (options.use_scale) y = y * s.param("scale", channels, options.scale_init);
  if (options.use_bias) y = y + s.param("bias", channels, options.bias_init);
  return cast(y, dtype);
}

// x with mean 0 and variance 1.
Var normalized(const Var& x, double epsilon, const Mean& mean_of) {
  const Var centered = x - mean_of(x);
  return standardized(x, centered, mean_of(square(centered)), epsilon, true, mean_of);
}

Var mean_of_last(const Var& x) { return mean(x, {-1}); }

}  // namespace

Layer layer_norm(const NormOptions& options) {
  return builtin("layer_norm", [options](Scope& s, const Var& given) {
    const Var y = normalized(in_f32("layer_norm", given, 1), options.epsilon, mean_of_last);
    return scaled(s, y, options, given.dtype());
  });
}

Layer rms_norm(const RmsNormOptions& options) {
  return builtin("rms_norm", [options](Scope& s, const Var& given) {
    const Var x = in_f32("rms_norm", given, 1);
    const Var y = standardized(x, x, mean_of_last(square(x)), options.epsilon, false, mean_of_last);
    return scaled(s, y, {.use_scale = options.use_scale, .use_bias = false, .scale_init = options.scale_init},
                  given.dtype());
  });
}

Layer group_norm(std::int64_t groups, const NormOptions& options) {
  if (groups < 1) throw_invalid("group_norm: {} groups, expected at least 1", groups);
  return builtin("group_norm", [groups, options](Scope& s, const Var& given) {
    const Var whole = in_f32("group_norm", given, 2);
    const Shape& shape = whole.shape();
    const std::int64_t channels = shape[-1];
    if (channels % groups != 0) {
      throw_invalid("group_norm: {} groups for {} channels, expected groups of equal size", groups, channels);
    }
    const std::int64_t others = channels == 0 ? 0 : shape.drop_front().count() / channels;
    const Var x = whole.reshape({shape[0], others, groups, channels / groups});
    const Var y = normalized(x, options.epsilon, [](const Var& v) { return mean(v, {1, 3}); });
    return scaled(s, y.reshape(shape), options, given.dtype());
  });
}

Layer batch_norm(const BatchNormOptions& options) {
  return builtin("batch_norm", [options](Scope& s, const Var& given) {
    const Var x = in_f32("batch_norm", given, 2);
    const Shape channels{x.shape()[-1]};
    const Variable old_mean = s.variable("batch_stats", "mean", channels, zeros());
    const Variable old_variance = s.variable("batch_stats", "var", channels, ones());
    const NormOptions affine{options.epsilon, options.use_scale, options.use_bias, options.scale_init,
                             options.bias_init};
    if (!s.training() || options.use_moving_averages) {
      const Var y = (x - old_mean.value()) * rsqrt(old_variance.value() + options.epsilon);
      return scaled(s, y, affine, given.dtype());
    }
    // A short batch may leave this rank no rows. It then computes on a placeholder row with a weight of 0.
    const bool counts = detail::StepScope::current().weight > 0;
    if (counts && x.shape().count() == channels.count() && !(options.synchronized && s.ranks() > 1)) {
      throw_invalid(
          "batch_norm: the input is {}, one value per channel, which has no variance; expected more "
          "rows, or evaluation",
          to_string(x.shape()));
    }
    std::vector<int> axes(x.shape().rank() - 1);
    std::iota(axes.begin(), axes.end(), 0);
    const auto mean_here = [axes](const Var& v) { return mean(v, Axes(axes)); };
    const auto mean_of = [mean_here, s, synchronized = options.synchronized](const Var& v) {
      return synchronized ? s.mean_over_ranks(mean_here(v)) : mean_here(v);
    };
    // Two passes, as the other norms': mean(x^2) - mean(x)^2 would cancel where the mean is large.
    const Var batch_mean = mean_of(x), centered = x - batch_mean;
    const Var variance = mean_of(square(centered));
    const auto mean_of_gradients = [mean_of, counts](const Var& v) { return counts ? mean_of(v) : 0 * mean_of(v); };
    const Var y = standardized(x, centered, variance, options.epsilon, true, mean_of_gradients);
    const auto update = [&](const Variable& old, const Var& of_batch) {
      const Var batch = stop_gradient(of_batch),
                same_everywhere = options.synchronized ? batch : s.mean_over_ranks(batch);
      old.set(options.momentum * old.value() + (1 - options.momentum) * same_everywhere.reshape(channels));
    };
    update(old_mean, batch_mean);
    update(old_variance, variance);
    return scaled(s, y, affine, given.dtype());
  });
}

}  // namespace giro::nn
