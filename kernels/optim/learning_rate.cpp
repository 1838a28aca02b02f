#include <giro/kernels/optim/learning_rate.h>

#include <cmath>
#include <numbers>
#include <ranges>

#include "runtime/throw_error.h"

namespace giro::optim {
namespace {

float checked(const char* what, double rate) {
  if (!std::isfinite(rate) || rate < 0) {
    throw_invalid("learning rate: {} is {}, expected a finite number >= 0", what, rate);
  }
  return static_cast<float>(rate);
}

std::int64_t checked_steps(const char* what, std::int64_t steps) {
  if (steps < 1) {
    throw_invalid("learning rate: {} is {} steps, expected at least 1", what, steps);
  }
  return steps;
}

// Rises from `start` to `peak` over `steps`, then follows `rate`.
LearningRate after_warmup(const LearningRate& rate, float peak, std::int64_t steps, float start) {
  return LearningRate([=](const Value& step) {
    const Value rising = start + (peak - start) * step / static_cast<double>(steps);
    return where(step < steps, rising, rate(step));
  });
}

LearningRate cosine_after(std::int64_t begin, float peak, std::int64_t decay_steps, float end) {
  return LearningRate([=](const Value& step) {
    const Value share = (step - static_cast<double>(begin)) / static_cast<double>(decay_steps);
    return end + (peak - end) * 0.5f * (1 + cos(std::numbers::pi * minimum(share, 1)));
  });
}

void check_boundaries(const auto& boundaries, std::int64_t first) {
  std::int64_t previous = first - 1;
  for (const std::int64_t boundary : boundaries) {
    if (boundary <= previous) {
      throw_invalid("learning rate: boundary {} follows {}, expected increasing boundaries from {} on", boundary,
                    previous, first);
    }
    previous = boundary;
  }
}

}  // namespace

LearningRate::LearningRate(double constant)
    : rate_([rate = checked("the constant", constant)](const Value&) { return Value(rate); }) {}

LearningRate constant(double rate) { return LearningRate(rate); }

LearningRate warmup(double peak, std::int64_t steps, double start) {
  return after_warmup(peak, checked("the peak", peak), checked_steps("the warmup", steps), checked("the start", start));
}

LearningRate cosine(double peak, std::int64_t decay_steps, double end) {
  return cosine_after(0, checked("the peak", peak), checked_steps("the decay", decay_steps), checked("the end", end));
}

LearningRate warmup_cosine(double peak, std::int64_t warmup_steps, std::int64_t decay_steps, double start, double end) {
  const LearningRate decaying = cosine_after(checked_steps("the warmup", warmup_steps), checked("the peak", peak),
                                             checked_steps("the decay", decay_steps), checked("the end", end));
  return after_warmup(decaying, checked("the peak", peak), warmup_steps, checked("the start", start));
}

LearningRate piecewise_constant(double rate, const std::vector<std::pair<std::int64_t, double>>& scales) {
  check_boundaries(scales | std::views::keys, 0);
  for (const double scale : scales | std::views::values) checked("a factor", scale);
  return LearningRate([=, start = checked("the constant", rate)](const Value& step) {
    Value result = start;
    for (const auto& [boundary, scale] : scales) {
      const Value next = result * static_cast<float>(scale);
      result = where(step < boundary, result, next);
    }
    return result;
  });
}

LearningRate polynomial(double start, double end, double power, std::int64_t steps) {
  checked("the start", start);
  checked("the end", end);
  checked("the power", power);
  checked_steps("the decay", steps);
  return LearningRate([=](const Value& step) {
    const Value left = 1 - minimum(step / static_cast<double>(steps), 1);
    return (start - end) * (power == 1 ? left : optim::power(left, power)) + end;
  });
}

LearningRate linear(double start, double end, std::int64_t steps) { return polynomial(start, end, 1, steps); }

LearningRate exponential_decay(double start, std::int64_t steps, double decay, const ExponentialDecayOptions& options) {
  checked("the start", start);
  checked("the decay", decay);
  checked("the end", options.end);
  checked_steps("the decay", steps);
  return LearningRate([=](const Value& step) {
    const Value times = options.staircase ? 1.0 * quotient(step, steps) : step / static_cast<double>(steps);
    return maximum(start * power(decay, times), options.end);
  });
}

LearningRate inverse_sqrt(double peak, std::int64_t warmup_steps) {
  const auto steps = static_cast<double>(checked_steps("the warmup", warmup_steps));
  const LearningRate decaying([=](const Value& step) { return peak * sqrt(steps / maximum(step, steps)); });
  return after_warmup(decaying, checked("the peak", peak), warmup_steps, 0);
}

LearningRate join(const std::vector<LearningRate>& schedules, const std::vector<std::int64_t>& boundaries) {
  if (schedules.size() != boundaries.size() + 1) {
    throw_invalid("learning rate: {} schedules and {} boundaries, expected one more schedule than boundaries",
                  schedules.size(), boundaries.size());
  }
  check_boundaries(boundaries, 1);
  return LearningRate([=](const Value& step) {
    Value rate = schedules.front()(step);
    for (std::size_t i = 0; i < boundaries.size(); ++i) {
      rate = where(step < boundaries[i], rate, schedules[i + 1](step - boundaries[i]));
    }
    return rate;
  });
}

}  // namespace giro::optim
