#pragma once

#include <cstdint>

#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

namespace giro::optim {

// Loss scaling for gradients in f16, controlled on the device. Micikevicius et al., "Mixed precision training", 2018.
// The constants, and what a skipped update leaves unchanged, are as in flax's DynamicScale, except the largest and the
// smallest scale.
struct LossScale {
  static constexpr float kInitial = 65536, kMinScale = 1, kMaxScale = 0x1p126f;
  static constexpr std::int64_t kGrowthInterval = 2000;  // good steps in a row before it doubles

  Tensor scale{};       // f32 scalar: the backward pass starts with this times the loss
  Tensor good_steps{};  // i64 scalar: since the last change of the scale
  Tensor skipped{};     // i64 scalar: skipped updates in all steps
};

// Called after an update. `squared_norm`, f64, is the sum of squares of the gradients. If it is finite, increments
// good_steps; after kGrowthInterval good steps, doubles the scale. Otherwise halves the scale and increments skipped.
// good_steps is 0 after either change. Errors: shape_mismatch, dtype_mismatch, device_mismatch.
void adjust_loss_scale(const LossScale& scale, const Tensor& squared_norm, const Stream& stream);

}  // namespace giro::optim
