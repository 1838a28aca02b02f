#include <giro/kernels/optim/optimizer.h>

#include <fmt/format.h>

#include <cmath>

#include <giro/runtime/error.h>

namespace giro::optim {
namespace {

void check(bool good, const char* what, double value, const char* expected) {
  if (!good) {
    throw Error(ErrorCode::invalid_argument, fmt::format("optimizer: {} is {}, expected {}", what, value, expected));
  }
}

void check_fraction(const char* what, double value) {
  check(value >= 0 && value < 1, what, value, "a number in [0, 1)");
}

void check_decay(double value) {
  check(std::isfinite(value) && value >= 0, "weight_decay", value, "a finite number >= 0");
}

}  // namespace

Optimizer sgd(const LearningRate& learning_rate, const SgdOptions& options) {
  check_fraction("momentum", options.momentum);
  check_decay(options.weight_decay);
  check(!options.nesterov || options.momentum > 0, "nesterov with momentum", options.momentum, "a momentum above 0");
  UpdateRule rule{.rule = Rule::sgd, .learning_rate = learning_rate};
  rule.momentum = options.momentum;
  rule.nesterov = options.nesterov;
  rule.weight_decay = options.weight_decay;
  return {rule, options.decay_mask};
}

Optimizer adam(const LearningRate& learning_rate, const AdamOptions& options) {
  return adamw(learning_rate, {.b1 = options.b1, .b2 = options.b2, .eps = options.eps, .weight_decay = 0});
}

Optimizer adamw(const LearningRate& learning_rate, const AdamWOptions& options) {
  check_fraction("b1", options.b1);
  check_fraction("b2", options.b2);
  check(std::isfinite(options.eps) && options.eps > 0, "eps", options.eps, "a finite number > 0");
  check_decay(options.weight_decay);
  UpdateRule rule{.rule = Rule::adam, .learning_rate = learning_rate};
  rule.beta1 = options.b1;
  rule.beta2 = options.b2;
  rule.epsilon = options.eps;
  rule.weight_decay = options.weight_decay;
  return {rule, options.decay_mask};
}

Optimizer clip_by_global_norm(double max_norm, Optimizer optimizer) {
  check(std::isfinite(max_norm) && max_norm > 0, "max_norm", max_norm, "a finite number > 0");
  optimizer.rule.max_norm = max_norm;
  return optimizer;
}

}  // namespace giro::optim
