#include <giro/kernels/optim/optimizer.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include <giro/kernels/nn/functional.h>

#include "kernels/nn/apply.h"
#include "runtime/path_pattern.h"
#include "runtime/text.h"
#include "runtime/throw_error.h"

namespace giro::optim {
namespace {

// Error(invalid_argument) for an option of an optimizer that is out of its range.
void check(bool good, const char* what, double value, const char* expected) {
  if (!good) throw_invalid("optimizer: {} is {}, expected {}", what, value, expected);
}

void check_fraction(const char* what, double value) {
  check(value >= 0 && value < 1, what, value, "a number in [0, 1)");
}

void check_positive(const char* what, double value) {
  check(std::isfinite(value) && value > 0, what, value, "a finite number > 0");
}

void check_not_negative(const char* what, double value) {
  check(std::isfinite(value) && value >= 0, what, value, "a finite number >= 0");
}

template <class Options>
void check_momentum(const Options& options) {
  check_fraction("momentum", options.momentum);
  check(!options.nesterov || options.momentum > 0, "nesterov with momentum", options.momentum, "a momentum above 0");
}

// params -= rate * direction, with weight decay.
void step_along(Update& u, const Value& direction, const Value& rate, double weight_decay) {
  const Value param = u.param();
  Value updated = param - rate * direction;
  if (weight_decay != 0) updated = updated - where(u.decays(), rate * weight_decay, 0) * param;
  u.set_param(updated);
}

// `change` with momentum, which `moment` keeps.
template <class Options>
Value with_momentum(Update& u, const char* moment, const Options& options, const Value& change) {
  if (options.momentum == 0) return change;
  const Value trace = options.momentum * u.moment(moment) + change;
  u.set_moment(moment, trace);
  return options.nesterov ? options.momentum * trace + change : trace;
}

Value update_average(Update& u, const char* moment, double decay, const Value& towards, double initial = 0) {
  const Value after = decay * u.moment(moment, initial) + (1 - decay) * towards;
  u.set_moment(moment, after);
  return after;
}

// Two of a kind would share one collection.
void expect_no_other(const char* kind, const Optimizer& optimizer) {
  if (optimizer.name.find(kind) == std::string::npos) return;
  throw_invalid("optimizer: {}around {}, which already has one", kind, optimizer.name);
}

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

Var root_mean_square(const Var& x) {
  return nn::norm("root_mean_square", x) / std::sqrt(static_cast<double>(x.shape().count()));
}

// An approximation of U V^T, given a matrix with the singular value decomposition U S V^T.
Var orthogonal(const Var& matrix, int steps, double eps) {
  const bool is_tall = matrix.shape()[0] > matrix.shape()[1];
  Var x = is_tall ? transpose(matrix) : matrix;
  x = x / (nn::norm("muon", x) + eps);
  for (int i = 0; i < steps; ++i) {
    const Var a = nn::dense(x, transpose(x), Var());
    const Var b = -4.7750 * a + 2.0315 * nn::dense(a, a, Var());
    x = 3.4445 * x + nn::dense(b, x, Var());
  }
  return is_tall ? transpose(x) : x;
}

}  // namespace

Optimizer sgd(const LearningRate& learning_rate, const SgdOptions& options) {
  check_momentum(options);
  check_not_negative("weight_decay", options.weight_decay);
  const auto update = [=](Update& u) {
    const Value rate = u.rate(learning_rate);
    step_along(u, with_momentum(u, "mu", options, u.grad()), rate, options.weight_decay);
  };
  return make("sgd", update, options.decay_mask);
}

Optimizer adam(const LearningRate& learning_rate, const AdamOptions& options) {
  Optimizer result = adamw(learning_rate, {.b1 = options.b1, .b2 = options.b2, .eps = options.eps, .weight_decay = 0});
  result.name = "adam";
  return result;
}

Optimizer adamw(const LearningRate& learning_rate, const AdamWOptions& options) {
  check_fraction("b1", options.b1);
  check_fraction("b2", options.b2);
  check_positive("eps", options.eps);
  check_not_negative("weight_decay", options.weight_decay);
  const auto update = [=](Update& u) {
    const Value rate = u.rate(learning_rate), g = u.grad();
    const Value mu = update_average(u, "mu", options.b1, g), nu = update_average(u, "nu", options.b2, g * g);
    const Value first = 1 / u.correction(options.b1), second = 1 / u.correction(options.b2);
    step_along(u, (mu * first) / (sqrt(nu * second) + options.eps), rate, options.weight_decay);
  };
  return make("adamw", update, options.decay_mask);
}

Optimizer lion(const LearningRate& learning_rate, const LionOptions& options) {
  check_fraction("b1", options.b1);
  check_fraction("b2", options.b2);
  check_not_negative("weight_decay", options.weight_decay);
  const auto update = [=](Update& u) {
    const Value rate = u.rate(learning_rate), g = u.grad();
    const Value direction = sign(options.b1 * u.moment("mu") + (1 - options.b1) * g);
    update_average(u, "mu", options.b2, g);
    step_along(u, direction, rate, options.weight_decay);
  };
  return make("lion", update, options.decay_mask);
}

Optimizer rmsprop(const LearningRate& learning_rate, const RmspropOptions& options) {
  check_fraction("decay", options.decay);
  check_positive("eps", options.eps);
  check_not_negative("initial_scale", options.initial_scale);
  check_momentum(options);
  return make("rmsprop", [=](Update& u) {
    const Value rate = u.rate(learning_rate), g = u.grad();
    Value variance = update_average(u, "nu", options.decay, square(g), options.initial_scale);
    if (options.centered) variance = maximum(variance - square(update_average(u, "mu", options.decay, g)), 0);
    const Value change = with_momentum(u, "trace", options, rate * (g / sqrt(variance + options.eps)));
    u.set_param(u.param() - change);
  });
}

Optimizer adagrad(const LearningRate& learning_rate, const AdagradOptions& options) {
  check_not_negative("initial_accumulator_value", options.initial_accumulator_value);
  check_positive("eps", options.eps);
  return make("adagrad", [=](Update& u) {
    const Value rate = u.rate(learning_rate), g = u.grad();
    const Value sum = u.moment("sum", options.initial_accumulator_value) + square(g);
    u.set_moment("sum", sum);
    u.set_param(u.param() - rate * where(sum == 0, 0, g / sqrt(sum + options.eps)));
  });
}

Optimizer clip_by_global_norm(double max_norm, const Optimizer& optimizer) {
  check_positive("max_norm", max_norm);
  return wrap(fmt::format("clip_by_global_norm {} ", max_norm), optimizer, [=](Update& u, const Optimizer& inner) {
    const Value norm = u.gradient_norm();
    // A NaN norm scales by NaN: clipping must not hide it.
    u.scale_grad(where(norm <= max_norm, 1, max_norm / norm));
    inner.update(u);
  });
}

Optimizer clip_by_value(double limit, const Optimizer& optimizer) {
  check_positive("limit", limit);
  return wrap(fmt::format("clip_by_value {} ", limit), optimizer, [=](Update& u, const Optimizer& inner) {
    u.set_grad(clamp(u.grad(), -limit, limit));
    inner.update(u);
  });
}

Optimizer lookahead(const Optimizer& optimizer, int every, double alpha) {
  expect_no_other("lookahead ", optimizer);
  check(every >= 1, "every", every, "a number >= 1");
  check(alpha > 0 && alpha <= 1, "alpha", alpha, "a number in (0, 1]");
  const auto update = [=](Update& u, const Optimizer& inner) {
    const Value slow = u.copy_of_param("slow");
    inner.update(u);
    const Value fast = u.param(), is_due = remainder(u.step(), every) == 0;
    const Value after = where(is_due, slow + alpha * (fast - slow), slow);
    u.set_param(where(is_due, after, fast));
    u.set_moment("slow", after);
  };
  return wrap(fmt::format("lookahead {} {} ", every, alpha), optimizer, update);
}

Optimizer ema(double decay, const Optimizer& optimizer) {
  expect_no_other("ema ", optimizer);
  check_fraction("decay", decay);
  return wrap(fmt::format("ema {} ", decay), optimizer, [=](Update& u, const Optimizer& inner) {
    const Value average = u.copy_of_param("ema");
    inner.update(u);
    u.set_moment("ema", decay * average + (1 - decay) * u.param());
  });
}

Optimizer accumulate(int steps, const Optimizer& optimizer) {
  check(steps >= 1, "the number of steps to accumulate", steps, "a number >= 1");
  check(optimizer.accumulated_steps == 1, "accumulate around accumulate of", optimizer.accumulated_steps,
        "one of them");
  Optimizer result = optimizer;
  result.accumulated_steps = steps;
  return result;
}

Optimizer frozen() { return {.name = "frozen"}; }

Optimizer by_path(std::vector<std::pair<std::string, Optimizer>> optimizers) {
  std::vector<std::pair<std::string, std::shared_ptr<const Optimizer>>> rules;
  for (auto& [pattern, optimizer] : optimizers) {
    if (optimizer.accumulated_steps > 1) {
      throw_error(ErrorCode::unsupported,
                  "by_path: '{}' accumulates the gradients of only some leaves, expected accumulate around by_path",
                  pattern);
    }
    rules.emplace_back(pattern, std::make_shared<const Optimizer>(std::move(optimizer)));
  }
  Optimizer result{.name = "by_path"};
  result.of_leaves = [rules = std::move(rules)](const std::vector<LeafSpec>& params) {
    std::vector<std::shared_ptr<const Optimizer>> of_each(params.size());
    for (const auto& [text, optimizer] : rules) {
      const PathPattern pattern(text);
      bool matches = false;
      std::vector<std::size_t> taken;
      std::vector<LeafSpec> leaves;
      for (std::size_t i = 0; i < params.size(); ++i) {
        if (!pattern.match(params[i].name)) continue;
        matches = true;
        if (of_each[i]) continue;
        taken.push_back(i);
        leaves.push_back(params[i]);
      }
      if (!matches) {
        throw_error(ErrorCode::not_found, "by_path: the pattern '{}' matches no leaf of params{}", text,
                    suggestion(text, params, &LeafSpec::name));
      }
      const auto inner =
          optimizer->of_leaves ? optimizer->of_leaves(leaves) : decltype(of_each)(taken.size(), optimizer);
      for (std::size_t k = 0; k < taken.size(); ++k) of_each[taken[k]] = inner[k];
    }
    for (std::size_t i = 0; i < params.size(); ++i) {
      if (of_each[i]) continue;
      throw_error(ErrorCode::not_found, "by_path: no pattern matches '{}', expected one, such as '**' at the end",
                  params[i].name);
    }
    return of_each;
  };
  return result;
}

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
