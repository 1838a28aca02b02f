#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

#include <giro/kernels/optim/value.h>

namespace giro::optim {

// A learning rate as a function of the step, evaluated on the device. A plain value: a recorded graph holds it, and the
// host never sends the rate to the device. Converts from a number, as in adamw(1e-3), and from a function of the step:
//
//   optim::adamw(optim::LearningRate([](const optim::Value& step) { return 0.1 * rsqrt(step + 1); }))
//
class LearningRate {
 public:
  // Error(invalid_argument) unless it is finite and >= 0.
  LearningRate(double constant);
  template <class F>
    requires(!std::same_as<F, LearningRate> && std::is_invocable_r_v<Value, const F&, const Value&>)
  LearningRate(F rate) : rate_(std::move(rate)) {}

  // The rate at a step, counted from 0: the same float that the device computes.
  float operator()(std::int64_t step) const { return evaluate(rate_, step); }
  // The same within an update. The step is a whole number.
  Value operator()(const Value& step) const { return rate_(step); }

 private:
  std::function<Value(const Value&)> rate_;
};

// Errors of all: invalid_argument for a negative or non-finite rate, or steps out of order.
LearningRate constant(double rate);
// Linear from `start` at step 0 to `peak` at `steps`, then constant.
LearningRate warmup(double peak, std::int64_t steps, double start = 0);
// Half a cosine from `peak` at step 0 to `end` at `decay_steps`, then constant.
LearningRate cosine(double peak, std::int64_t decay_steps, double end = 0);
// warmup, then cosine over the `decay_steps` that follow it.
LearningRate warmup_cosine(double peak, std::int64_t warmup_steps, std::int64_t decay_steps, double start = 0,
                           double end = 0);
// `rate`, multiplied at each boundary step by its factor: piecewise_constant(0.1, {{1000, 0.1}, {2000, 0.1}}).
LearningRate piecewise_constant(double rate, const std::vector<std::pair<std::int64_t, double>>& scales);
// (start - end) (1 - step / steps)^power + end up to `steps`, then `end`.
LearningRate polynomial(double start, double end, double power, std::int64_t steps);
// From `start` at step 0 to `end` at `steps`, then constant.
LearningRate linear(double start, double end, std::int64_t steps);

struct ExponentialDecayOptions {
  bool staircase = false;  // decays once every `steps` steps instead of a little at each step
  double end = 0;          // the lowest rate
};
// start decay^(step / steps).
LearningRate exponential_decay(double start, std::int64_t steps, double decay,
                               const ExponentialDecayOptions& options = {});
// Linear from 0 at step 0 to `peak` at `warmup_steps`, then peak sqrt(warmup_steps / step). Vaswani et al., "Attention
// is all you need", 2017.
LearningRate inverse_sqrt(double peak, std::int64_t warmup_steps);
// schedules[0] up to the first boundary, then schedules[1], and so on; each counts its steps from its own beginning.
// There is one more schedule than boundaries, which increase and start at 1 or later.
LearningRate join(const std::vector<LearningRate>& schedules, const std::vector<std::int64_t>& boundaries);

}  // namespace giro::optim
