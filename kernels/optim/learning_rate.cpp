#include <giro/kernels/optim/learning_rate.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include <giro/runtime/error.h>

#include "kernels/pointwise/term.h"

namespace giro::optim {
namespace {

float checked(const char* what, double rate) {
  if (!std::isfinite(rate) || rate < 0) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("learning rate: {} is {}, expected a finite number >= 0", what, rate));
  }
  return static_cast<float>(rate);
}

std::int64_t checked_steps(const char* what, std::int64_t steps) {
  if (steps < 1) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("learning rate: {} is {} steps, expected at least 1", what, steps));
  }
  return steps;
}

}  // namespace

LearningRate::LearningRate(double constant) : peak_(checked("the constant", constant)) {}

float LearningRate::operator()(std::int64_t step) const {
  const auto s = static_cast<float>(step);
  if (step < warmup_steps_) return start_ + (peak_ - start_) * s / static_cast<float>(warmup_steps_);
  if (decay_steps_ > 0) {
    const float share = (s - static_cast<float>(warmup_steps_)) / static_cast<float>(decay_steps_);
    return end_ + (peak_ - end_) * 0.5f * (1 + std::cos(std::numbers::pi_v<float> * std::min(share, 1.0f)));
  }
  float rate = peak_;
  for (int i = 0; i < pieces_; ++i) {
    if (step >= boundaries_[i]) rate *= scales_[i];
  }
  return rate;
}

pointwise::Term LearningRate::operator()(const pointwise::Term& step) const {
  using pointwise::Term;
  const Term s = step.cast(DType::f32);
  Term rate = s.constant(DType::f32, peak_);
  if (decay_steps_ > 0) {
    const Term share = (s - static_cast<double>(warmup_steps_)) / static_cast<double>(decay_steps_);
    rate = end_ + (peak_ - end_) * 0.5f * (1 + cos(std::numbers::pi * minimum(share, 1)));
  }
  for (int i = 0; i < pieces_; ++i) {
    rate = where(step < boundaries_[i], rate, rate * scales_[i]);
  }
  if (warmup_steps_ > 0) {
    const Term rising = start_ + (peak_ - start_) * s / static_cast<double>(warmup_steps_);
    rate = where(step < warmup_steps_, rising, rate);
  }
  return rate;
}

LearningRate constant(double rate) { return LearningRate(rate); }

LearningRate warmup(double peak, std::int64_t steps, double start) {
  LearningRate rate(peak);
  rate.start_ = checked("the start", start);
  rate.warmup_steps_ = checked_steps("the warmup", steps);
  return rate;
}

LearningRate cosine(double peak, std::int64_t decay_steps, double end) {
  LearningRate rate(peak);
  rate.decay_steps_ = checked_steps("the decay", decay_steps);
  rate.end_ = checked("the end", end);
  return rate;
}

LearningRate warmup_cosine(double peak, std::int64_t warmup_steps, std::int64_t decay_steps, double start, double end) {
  LearningRate rate = warmup(peak, warmup_steps, start);
  rate.decay_steps_ = checked_steps("the decay", decay_steps);
  rate.end_ = checked("the end", end);
  return rate;
}

LearningRate piecewise_constant(double rate, std::initializer_list<std::pair<std::int64_t, double>> scales) {
  LearningRate result(rate);
  if (scales.size() > LearningRate::kMaxPieces) {
    throw Error(ErrorCode::invalid_argument, fmt::format("learning rate: {} boundaries, expected at most {}",
                                                         scales.size(), LearningRate::kMaxPieces));
  }
  std::int64_t previous = -1;
  for (const auto& [boundary, scale] : scales) {
    if (boundary <= previous) {
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("learning rate: boundary {} follows {}, expected them to rise from 0", boundary, previous));
    }
    previous = boundary;
    result.boundaries_[result.pieces_] = boundary;
    result.scales_[result.pieces_] = checked("a factor", scale);
    ++result.pieces_;
  }
  return result;
}

}  // namespace giro::optim
