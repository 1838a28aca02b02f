#include <giro/kernels/optim/learning_rate.h>

#include <fmt/format.h>

#include <cmath>

#include <giro/runtime/error.h>

#include "kernels/functors/learning_rate.h"

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

float LearningRate::operator()(std::int64_t step) const { return functors::RateOf::at(*this, step); }

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
