#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <vector>

#include <giro/kernels/nn/functional.h>
#include <giro/kernels/optim/optimizer.h>

#include "kernels/internal/optimizer_checks.h"

namespace giro::optim {
namespace {

using nn::Var;

// The axes with the second largest and the largest size, in optax's order; empty unless both are large enough.
std::vector<int> factored_axes(const Shape& shape, std::int64_t least) {
  if (shape.rank() < 2) return {};
  std::vector<int> axes(shape.rank());
  std::iota(axes.begin(), axes.end(), 0);
  const auto size = [&](int axis) { return shape.begin()[axis]; };
  std::stable_sort(axes.begin(), axes.end(), [&](int a, int b) { return size(a) < size(b); });
  axes.erase(axes.begin(), axes.end() - 2);
  return size(axes.front()) < least ? std::vector<int>{} : axes;
}

Var root_mean_square(const Var& x) { return sqrt(mean(square(x))); }

// An approximation of U V^T, given a matrix with the singular value decomposition U S V^T.
Var orthogonal(const Var& matrix, int steps, double eps) {
  const bool is_tall = matrix.shape()[0] > matrix.shape()[1];
  Var x = is_tall ? transpose(matrix) : matrix;
  x = x / (sqrt(sum(square(x))) + eps);
  for (int i = 0; i < steps; ++i) {
    const Var a = nn::dense(x, transpose(x), Var());
    const Var b = -4.7750 * a + 2.0315 * nn::dense(a, a, Var());
    x = 3.4445 * x + nn::dense(b, x, Var());
  }
  return is_tall ? transpose(x) : x;
}

}  // namespace

Optimizer adafactor(const LearningRate& learning_rate, const AdafactorOptions& options) {
  check_positive("decay_rate", options.decay_rate);
  check_positive("clipping_threshold", options.clipping_threshold);
  check_fraction("momentum", options.momentum);
  check_not_negative("weight_decay", options.weight_decay);
  check_positive("eps", options.eps);
  const auto update = [=](LeafUpdate& u) {
    const Var param = u.param(), g = u.grad(), squared = square(g) + options.eps;
    const Var keep = 1 - power(u.step(), -options.decay_rate);
    const auto update_average = [&](const char* name, const Var& towards) {
      const Var after = keep * u.moment(name, towards.shape()) + (1 - keep) * towards;
      u.set_moment(name, after);
      return after;
    };
    Var direction;
    if (const std::vector<int> axes = factored_axes(param.shape(), options.min_dim_size_to_factor); !axes.empty()) {
      const Var row = update_average("row", mean(squared, {axes[1]})),
                column = update_average("column", mean(squared, {axes[0]}));
      direction = g * rsqrt(row / mean(row, {axes[0]})) * rsqrt(column);
    } else {
      direction = g * rsqrt(update_average("nu", squared));
    }
    direction = direction / maximum(root_mean_square(direction) / options.clipping_threshold, 1.0);
    direction = direction * u.rate(learning_rate);
    if (options.multiply_by_parameter_scale) direction = direction * maximum(root_mean_square(param), 1e-3);
    if (options.momentum > 0) {
      direction = options.momentum * u.moment("mu") + (1 - options.momentum) * direction;
      u.set_moment("mu", direction);
    }
    if (options.weight_decay > 0 && u.decays()) direction = direction + options.weight_decay * param;
    u.set_param(param - direction);
  };
  const std::string name = fmt::format(
      "adafactor, min_dim_size_to_factor {}, decay_rate {}, parameter scale {}, clipping_threshold {}, momentum {}, "
      "weight_decay {}, eps {}",
      options.min_dim_size_to_factor, options.decay_rate, options.multiply_by_parameter_scale,
      options.clipping_threshold, options.momentum, options.weight_decay, options.eps);
  return make_per_leaf(name, update, options.decay_mask);
}

Optimizer muon(const LearningRate& learning_rate, const MuonOptions& options) {
  check(options.ns_steps >= 1, "ns_steps", options.ns_steps, "a number >= 1");
  check_fraction("beta", options.beta);
  check_positive("eps", options.eps);
  check_not_negative("weight_decay", options.weight_decay);
  const auto update = [=](LeafUpdate& u) {
    const double beta = options.beta;
    const Var param = u.param(), g = u.grad();
    const Var mu = beta * u.moment("mu") + (1 - beta) * g;
    u.set_moment("mu", mu);
    Var direction = mu / u.correction(beta);
    if (options.nesterov) {
      // mu takes the next step's bias correction, g this step's.
      const Var next = 1 - beta * (1 - u.correction(beta));
      direction = beta * (mu / next) + (1 - beta) * (g / u.correction(beta));
    }
    const auto rows = static_cast<double>(param.shape()[0]), columns = static_cast<double>(param.shape()[1]);
    direction = std::sqrt(std::max(1.0, columns / rows)) * orthogonal(direction, options.ns_steps, options.eps);
    if (options.weight_decay > 0 && u.decays()) direction = direction + options.weight_decay * param;
    u.set_param(param - u.rate(learning_rate) * direction);
  };
  const std::string name =
      fmt::format("muon, ns_steps {}, beta {}, eps {}, nesterov {}, weight_decay {}", options.ns_steps, options.beta,
                  options.eps, options.nesterov, options.weight_decay);
  const auto of_matrices = std::make_shared<const Optimizer>(make_per_leaf(name, update, options.decay_mask));
  const auto of_others = std::make_shared<const Optimizer>(adamw(learning_rate, options.others));
  Optimizer result{.name = "muon"};
  result.of_leaves = [=](const std::vector<LeafSpec>& params) {
    std::vector<std::shared_ptr<const Optimizer>> optimizers;
    for (const LeafSpec& leaf : params) optimizers.push_back(leaf.shape.rank() == 2 ? of_matrices : of_others);
    return optimizers;
  };
  return result;
}

}  // namespace giro::optim
