#include <giro/kernels/optim/optimizer.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "tests/support/expect_error.h"

namespace giro::optim {
namespace {

using test::expect_error;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();

TEST(Optimizer, NumbersOutOfRange) {
  const auto refuses = [](const std::string& what, auto make) {
    expect_error(ErrorCode::invalid_argument, {what}, make);
  };
  for (const double bad : {-0.1, 1.0, kNaN}) {
    refuses("momentum", [=] { sgd(0.1, {.momentum = bad}); });
    refuses("b1", [=] { adam(0.1, {.b1 = bad}); });
    refuses("b2", [=] { adamw(0.1, {.b2 = bad}); });
  }
  for (const double bad : {0.0, -1.0, kNaN, kInfinity}) {
    refuses("eps", [=] { adam(0.1, {.eps = bad}); });
    refuses("max_norm", [=] { clip_by_global_norm(bad, sgd(0.1)); });
  }
  for (const double bad : {-1.0, kNaN, kInfinity}) {
    refuses("weight_decay", [=] { sgd(0.1, {.weight_decay = bad}); });
    refuses("weight_decay", [=] { adamw(0.1, {.weight_decay = bad}); });
  }
  for (const double bad : {0.0, -1.0, kNaN, kInfinity}) {
    refuses("limit", [=] { clip_by_value(bad, sgd(0.1)); });
    refuses("eps", [=] { rmsprop(0.1, {.eps = bad}); });
    refuses("clipping_threshold", [=] { adafactor(0.1, {.clipping_threshold = bad}); });
  }
  for (const double bad : {-0.1, 1.0, kNaN}) {
    refuses("decay", [=] { ema(bad, sgd(0.1)); });
    refuses("decay", [=] { rmsprop(0.1, {.decay = bad}); });
    refuses("b2", [=] { lion(0.1, {.b2 = bad}); });
    refuses("beta", [=] { muon(0.1, {.beta = bad}); });
  }
  refuses("initial_accumulator_value", [] { adagrad(0.1, {.initial_accumulator_value = -1}); });
  refuses("every", [] { lookahead(sgd(0.1), 0); });
  refuses("alpha", [] { lookahead(sgd(0.1), 5, 0); });
  refuses("steps to accumulate", [] { accumulate(0, sgd(0.1)); });
  refuses("accumulate around accumulate", [] { accumulate(2, accumulate(3, sgd(0.1))); });
  expect_error(ErrorCode::unsupported, {"'**'", "accumulate"}, [] { by_path({{"**", accumulate(2, sgd(0.1))}}); });
  refuses("nesterov", [] { sgd(0.1, {.nesterov = true}); });
  expect_error(ErrorCode::invalid_argument, {"-1"}, [] { adamw(-1.0); });
}

}  // namespace
}  // namespace giro::optim
