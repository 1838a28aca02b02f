#pragma once

#include <cstdint>

#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

namespace giro::optim {

// Loss scaling for gradients in f16, decided on the device. Micikevicius et al., "Mixed precision training", 2018; the
// numbers and what a skipped update leaves are those of flax's DynamicScale, but for the largest and least scale.
struct LossScale {
  static constexpr float kInitial = 65536, kLeast = 1, kLargest = 0x1p126f;
  static constexpr std::int64_t kGrowthInterval = 2000;  // good steps in a row before it doubles

  Tensor scale{};       // f32 scalar: the backward pass starts with this times the loss
  Tensor good_steps{};  // i64 scalar: since the scale changed last
  Tensor skipped{};     // i64 scalar: updates that were skipped, of all steps
};

// After an update by gradients whose sum of squares is `squared_norm`, f32: if that is finite, good_steps + 1, and
// after kGrowthInterval of them the scale doubles; else the scale is halved and skipped + 1. good_steps is 0 after
// either change. Errors: shape_mismatch, dtype_mismatch, device_mismatch.
void adjust_loss_scale(const LossScale& scale, const Tensor& squared_norm, const Stream& stream);

}  // namespace giro::optim
