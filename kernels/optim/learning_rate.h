#pragma once

#include <cstdint>
#include <initializer_list>
#include <utility>

namespace giro::pointwise {
class Term;
}

namespace giro::optim {

// A learning rate as a function of the step, evaluated on the device. A plain value: a recorded graph holds it, and the
// host never sends the rate to the device. Converts from a number: adamw(1e-3).
class LearningRate {
 public:
  static constexpr int kMaxPieces = 8;

  LearningRate(double constant);

  // The rate of a step, counted from 0.
  float operator()(std::int64_t step) const;
  // The same on the device. The step is an i64.
  pointwise::Term operator()(const pointwise::Term& step) const;

 private:
  friend LearningRate constant(double rate);
  friend LearningRate warmup(double peak, std::int64_t steps, double start);
  friend LearningRate cosine(double peak, std::int64_t decay_steps, double end);
  friend LearningRate warmup_cosine(double peak, std::int64_t warmup_steps, std::int64_t decay_steps, double start,
                                    double end);
  friend LearningRate piecewise_constant(double rate, std::initializer_list<std::pair<std::int64_t, double>> scales);

  float peak_;
  float start_ = 0, end_ = 0;
  std::int64_t warmup_steps_ = 0;
  std::int64_t decay_steps_ = 0;  // 0: no cosine decay
  int pieces_ = 0;
  std::int64_t boundaries_[kMaxPieces] = {};
  float scales_[kMaxPieces] = {};
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
LearningRate piecewise_constant(double rate, std::initializer_list<std::pair<std::int64_t, double>> scales);

}  // namespace giro::optim
