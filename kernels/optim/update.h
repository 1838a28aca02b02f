#pragma once

#include <cstddef>

#include <giro/kernels/optim/learning_rate.h>
#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

namespace giro::optim {

enum class Rule { sgd, adam };

// An optimizer's arithmetic as plain numbers.
struct UpdateRule {
  Rule rule = Rule::sgd;
  LearningRate learning_rate = 0.0;
  double momentum = 0;  // sgd
  bool nesterov = false;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;  // adam
  double weight_decay = 0;                            // decoupled, times the learning rate
  double max_norm = 0;                                // clip the gradients' global norm; 0: no clipping
};

// The flat buffers of an update: f32, all of the same count, which is a multiple of kGranule, and aligned to kAlignment
// bytes.
struct UpdateTensors {
  static constexpr int kGranule = 16;
  static constexpr std::size_t kAlignment = 16;

  Tensor params{};         // read and written
  Tensor grads{};          // read
  Tensor mu{};             // momentum or first moment; empty if the rule has none
  Tensor nu{};             // adam's second moment
  Tensor decays{};         // u8, one per granule: whether weight decay applies; empty: everywhere
  Tensor step{};           // i64 scalar, read: updates made so far
  Tensor learning_rate{};  // f32 scalar, written
  Tensor squared_norm{};   // f32 scalar, sum of squares of grads; read if max_norm > 0 or there is a loss_scale
  Tensor loss_scale{};     // f32 scalar that grads are multiplied by; empty: 1
  Tensor skipped{};        // i64 scalar, read with loss_scale: how many of `step` updates were skipped
};

// One launch over the flat buffers. With t = step - skipped + 1 and g = grads / loss_scale min(1, max_norm / norm),
// where norm is the norm of grads / loss_scale:
//   sgd:  mu = momentum mu + g;  params -= lr (nesterov ? momentum mu + g : mu) + lr weight_decay params
//   adam: mu = b1 mu + (1-b1) g;  nu = b2 nu + (1-b2) g^2;
//         params -= lr (mu/(1-b1^t) / (sqrt(nu/(1-b2^t)) + eps) + weight_decay params)
// With a loss_scale, only learning_rate changes if squared_norm is not finite.
// Errors: shape_mismatch, dtype_mismatch, device_mismatch; invalid_argument for a buffer that is not aligned.
void update(const UpdateRule& rule, const UpdateTensors& tensors, const Stream& stream);

}  // namespace giro::optim
