#pragma once

#include <cmath>
#include <cstdint>

#include <giro/kernels/optim/update.h>
#include <giro/runtime/host_device.h>

#include "kernels/functors/learning_rate.h"
#include "kernels/functors/loss_scale.h"

// The optimizers' arithmetic, once for both backends. A backend computes the coefficients once a launch (the CPU) or
// once a block (CUDA), from leaves on the device, and then runs sgd_element or adam_element over the flat buffers.
namespace giro::functors {

// base^exponent for an exponent of at least 1, by squaring. A block waits for one thread to compute it, and pow takes
// many times as long; products alone also come out the same on every device. Below 1 it is off by at most `exponent`
// roundings, of a result that falls faster than that grows.
GIRO_HOST_DEVICE inline double power(double base, std::int64_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if (exponent & 1) result *= base;
    base *= base;
  }
  return result;
}

// What is the same for every element of one update.
struct UpdateCoefficients {
  float learning_rate;
  float gradient_scale;  // of the clipping
  float decay;           // learning rate times weight decay
  float momentum;
  float beta1, one_minus_beta1, beta2, one_minus_beta2;
  float correction1 = 1, correction2 = 1;  // adam's 1 / (1 - beta^t)
  float epsilon;
  bool skips = false;  // the update, because of gradients that are not finite

  // From leaves on the device. loss_scale, and skipped with it, may be null; squared_norm where nothing needs it.
  GIRO_HOST_DEVICE static UpdateCoefficients at(const optim::UpdateRule& rule, const std::int64_t* step,
                                                const float* squared_norm, const float* loss_scale,
                                                const std::int64_t* skipped) {
    const bool scaled = loss_scale != nullptr;
    return UpdateCoefficients(rule, scaled ? *step - *skipped : *step, scaled || rule.max_norm > 0 ? *squared_norm : 0,
                              scaled ? *loss_scale : 0);
  }

  // `squared_norm` is ignored without clipping and scale; a loss_scale of 0 is none. The powers are taken in double: 1
  // - 0.999^t in float is off by 1e-5.
  GIRO_HOST_DEVICE UpdateCoefficients(const optim::UpdateRule& rule, std::int64_t step, float squared_norm,
                                      float loss_scale = 0) {
    learning_rate = RateOf::at(rule.learning_rate, step);
    gradient_scale = 1.0f;
    float unscale = 1.0f;  // a power of two, so that it rounds nothing
    if (loss_scale != 0) {
      unscale = 1.0f / loss_scale;
      skips = !is_finite_norm(squared_norm);
    }
    if (rule.max_norm > 0) {
      const float norm = sqrtf(squared_norm) * unscale;
      const float max_norm = static_cast<float>(rule.max_norm);
      // A NaN norm scales by NaN: clipping must not hide it.
      if (!(norm <= max_norm)) gradient_scale = max_norm / norm;
    }
    gradient_scale *= unscale;
    decay = learning_rate * static_cast<float>(rule.weight_decay);
    momentum = static_cast<float>(rule.momentum);
    beta1 = static_cast<float>(rule.beta1);
    beta2 = static_cast<float>(rule.beta2);
    one_minus_beta1 = static_cast<float>(1.0 - rule.beta1);
    one_minus_beta2 = static_cast<float>(1.0 - rule.beta2);
    if (rule.rule == optim::Rule::adam) {
      correction1 = static_cast<float>(1.0 / (1.0 - power(rule.beta1, step + 1)));
      correction2 = static_cast<float>(1.0 / (1.0 - power(rule.beta2, step + 1)));
    }
    epsilon = static_cast<float>(rule.epsilon);
  }
};

// `decay` is the coefficient's, or 0 where the mask spares the element.
GIRO_HOST_DEVICE inline void sgd_element(const UpdateCoefficients& c, bool nesterov, float decay, float& param,
                                         float grad, float* momentum_buffer) {
  float direction = c.gradient_scale * grad;
  if (momentum_buffer != nullptr) {
    const float g = direction;
    const float mu = c.momentum * *momentum_buffer + g;
    *momentum_buffer = mu;
    direction = nesterov ? c.momentum * mu + g : mu;
  }
  param = param - c.learning_rate * direction - decay * param;
}

GIRO_HOST_DEVICE inline void adam_element(const UpdateCoefficients& c, float decay, float& param, float grad, float& mu,
                                          float& nu) {
  const float g = c.gradient_scale * grad;
  mu = c.beta1 * mu + c.one_minus_beta1 * g;
  nu = c.beta2 * nu + c.one_minus_beta2 * (g * g);
  param = param - c.learning_rate * ((mu * c.correction1) / (sqrtf(nu * c.correction2) + c.epsilon)) - decay * param;
}

}  // namespace giro::functors
