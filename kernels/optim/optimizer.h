#pragma once

#include <functional>
#include <string>

#include <giro/kernels/optim/learning_rate.h>
#include <giro/kernels/optim/update.h>

namespace giro::optim {

// Which parameters weight decay applies to, by their path below params, such as "dense0/kernel". Empty: all.
using DecayMask = std::function<bool(const std::string& path)>;

// An optimizer as a plain value; its moments live in the state.
struct Optimizer {
  UpdateRule rule;
  DecayMask decay_mask = {};
};

struct SgdOptions {
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;  // decoupled: params shrink by learning_rate * weight_decay a step
  DecayMask decay_mask = {};
};
Optimizer sgd(const LearningRate& learning_rate, const SgdOptions& options = {});

struct AdamOptions {
  double b1 = 0.9;
  double b2 = 0.999;
  double eps = 1e-8;
};
// Kingma and Ba, "Adam: a method for stochastic optimization", 2015.
Optimizer adam(const LearningRate& learning_rate, const AdamOptions& options = {});

struct AdamWOptions {
  double b1 = 0.9;
  double b2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 1e-4;  // optax's default
  DecayMask decay_mask = {};
};
// Loshchilov and Hutter, "Decoupled weight decay regularization", 2019.
Optimizer adamw(const LearningRate& learning_rate, const AdamWOptions& options = {});

// `optimizer` with gradients scaled down to a global L2 norm of at most max_norm, on the device.
Optimizer clip_by_global_norm(double max_norm, Optimizer optimizer);

// Errors of all: invalid_argument for a number out of its range (momentum, b1, b2 in [0, 1); eps, max_norm > 0;
// weight_decay >= 0).

}  // namespace giro::optim
