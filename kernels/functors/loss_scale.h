#pragma once

#include <cmath>
#include <cstdint>

#include <giro/kernels/optim/loss_scale.h>
#include <giro/runtime/host_device.h>

namespace giro::functors {

// Whether an update by gradients with this sum of squares is to be made.
GIRO_HOST_DEVICE inline bool is_finite_norm(float squared_norm) { return squared_norm - squared_norm == 0.0f; }

struct AdjustLossScale {
  float* scale;
  std::int64_t *good_steps, *skipped;
  const float* squared_norm;

  GIRO_HOST_DEVICE void operator()(std::int64_t) const {
    using Scale = optim::LossScale;
    if (!is_finite_norm(*squared_norm)) {
      *scale = *scale * 0.5f > Scale::kLeast ? *scale * 0.5f : Scale::kLeast;
      *good_steps = 0;
      ++*skipped;
    } else if (*good_steps + 1 < Scale::kGrowthInterval) {
      ++*good_steps;
    } else {
      *scale = *scale * 2 < Scale::kLargest ? *scale * 2 : Scale::kLargest;
      *good_steps = 0;
    }
  }
};

template <class ForEach>
void adjust_loss_scale(const ForEach& for_each, const optim::LossScale& scale, const Tensor& squared_norm) {
  for_each(1, AdjustLossScale{scale.scale.data<float>(), scale.good_steps.data<std::int64_t>(),
                              scale.skipped.data<std::int64_t>(), squared_norm.data<float>()});
}

}  // namespace giro::functors
