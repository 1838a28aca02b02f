#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <giro/kernels/optim/learning_rate.h>
#include <giro/kernels/optim/update.h>

namespace giro::optim {

// Errors of all: invalid_argument for a number out of its range (decays of moments in [0, 1); eps, norms and thresholds
// > 0; weight_decay >= 0). Weight decay is decoupled: each step scales params by 1 - learning_rate * weight_decay.

struct SgdOptions {
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;
  DecayMask decay_mask = {};
};
// mu = momentum mu + g; params -= lr (nesterov ? momentum mu + g : mu).
Optimizer sgd(const LearningRate& learning_rate, const SgdOptions& options = {});

struct AdamOptions {
  double b1 = 0.9;
  double b2 = 0.999;
  double eps = 1e-8;
};
// mu = b1 mu + (1 - b1) g; nu = b2 nu + (1 - b2) g^2; params -= lr mu / (1 - b1^t) / (sqrt(nu / (1 - b2^t)) + eps).
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

struct LionOptions {
  double b1 = 0.9;
  double b2 = 0.99;
  double weight_decay = 1e-3;  // optax's default
  DecayMask decay_mask = {};
};
// params -= lr sign(b1 mu + (1 - b1) g); mu = b2 mu + (1 - b2) g.
// Chen et al., "Symbolic discovery of optimization algorithms", 2023.
Optimizer lion(const LearningRate& learning_rate, const LionOptions& options = {});

struct RmspropOptions {
  double decay = 0.9;
  double eps = 1e-8;
  double initial_scale = 0;  // of nu
  bool centered = false;     // divides by an estimate of the standard deviation
  double momentum = 0;       // of the updates, with the learning rate applied
  bool nesterov = false;
};
// nu = decay nu + (1 - decay) g^2; params -= lr g / sqrt(nu + eps), as in optax.
// Tieleman and Hinton, "Lecture 6.5: RMSProp", 2012.
Optimizer rmsprop(const LearningRate& learning_rate, const RmspropOptions& options = {});

struct AdagradOptions {
  double initial_accumulator_value = 0.1;
  double eps = 1e-7;
};
// sum += g^2; params -= lr g / sqrt(sum + eps), unchanged where sum is 0.
// Duchi et al., "Adaptive subgradient methods for online learning and stochastic optimization", 2011.
Optimizer adagrad(const LearningRate& learning_rate, const AdagradOptions& options = {});

// Per-leaf optimizers (make_per_leaf), with optax's defaults.

struct AdafactorOptions {
  std::int64_t min_dim_size_to_factor = 128;  // of the two largest axes; else the second moment is not factored
  double decay_rate = 0.8;                    // the second moment decays by 1 - t^-decay_rate at step t
  bool multiply_by_parameter_scale = true;
  double clipping_threshold = 1;  // of an update's root mean square
  double momentum = 0;
  double weight_decay = 0;  // not multiplied by the learning rate
  double eps = 1e-30;
  DecayMask decay_mask = {};
};
// Shazeer and Stern, "Adafactor: adaptive learning rates with sublinear memory cost", 2018.
Optimizer adafactor(const LearningRate& learning_rate, const AdafactorOptions& options = {});

struct MuonOptions {
  int ns_steps = 5;  // of the Newton-Schulz iteration
  double beta = 0.95;
  double eps = 1e-8;
  bool nesterov = true;
  double weight_decay = 0;
  DecayMask decay_mask = {};
  AdamWOptions others = {.weight_decay = 0};  // for leaves that are not matrices
};
// Orthogonalized momentum for matrices; adamw for all other leaves.
// Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024.
Optimizer muon(const LearningRate& learning_rate, const MuonOptions& options = {});

// Optimizers that wrap others.

// Gradients scaled down to a global L2 norm of at most max_norm.
Optimizer clip_by_global_norm(double max_norm, const Optimizer& optimizer);
// Gradients clamped to [-limit, limit].
Optimizer clip_by_value(double limit, const Optimizer& optimizer);
// After every `every` updates, slow weights (opt_state/slow) move `alpha` of the way to the params, and are copied to
// the params. Zhang et al., "Lookahead optimizer: k steps forward, 1 step back", 2019.
Optimizer lookahead(const Optimizer& optimizer, int every = 5, double alpha = 0.5);
// Keeps an average of the params in the collection "ema": ema = decay ema + (1 - decay) params after each update. It
// starts as the params of the first update. TrainState::ema_params evaluates with it, TrainState::averaged is for
// saving it.
Optimizer ema(double decay, const Optimizer& optimizer);
// Gradient accumulation: updates once every `steps` steps, with the mean of their gradients (opt_state/accumulated),
// like optax.MultiSteps. The learning rate and the optimizer's step count updates. Optimizers around it also see the
// mean.
Optimizer accumulate(int steps, const Optimizer& optimizer);

// The leaf does not change, and its gradient is not computed.
Optimizer frozen();
// Each leaf is updated by the first optimizer whose pattern matches its path below params. `*` matches anything but
// '/', `**` anything; a pattern without either matches a leaf or all leaves below a path. Norms still cover all
// gradients.
//
//   optim::by_path({{"encoder/**", optim::frozen()}, {"**/bias", optim::sgd(0.1)}, {"**", optim::adamw(1e-3)}})
//
// Errors, when a state is created: not_found for a pattern that matches no leaf, naming the nearest path, and for a
// leaf without a match; unsupported for accumulate inside it.
Optimizer by_path(std::vector<std::pair<std::string, Optimizer>> optimizers);

}  // namespace giro::optim
