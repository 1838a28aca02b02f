#pragma once

#include <cmath>
#include <cstdint>

#include <giro/kernels/optim/learning_rate.h>
#include <giro/runtime/host_device.h>

namespace giro::functors {

// A learning rate at a step, on host and device.
struct RateOf {
  GIRO_HOST_DEVICE static float at(const optim::LearningRate& rate, std::int64_t step) {
    const float s = static_cast<float>(step);
    if (step < rate.warmup_steps_)
      return rate.start_ + (rate.peak_ - rate.start_) * s / static_cast<float>(rate.warmup_steps_);
    if (rate.decay_steps_ > 0) {
      const float share = (s - static_cast<float>(rate.warmup_steps_)) / static_cast<float>(rate.decay_steps_);
      const float clamped = share < 1.0f ? share : 1.0f;
      return rate.end_ + (rate.peak_ - rate.end_) * 0.5f * (1.0f + cosf(3.14159265358979f * clamped));
    }
    float result = rate.peak_;
    for (int i = 0; i < rate.pieces_; ++i) {
      if (step >= rate.boundaries_[i]) result *= rate.scales_[i];
    }
    return result;
  }
};

}  // namespace giro::functors
