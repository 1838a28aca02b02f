#include <giro/kernels/optim/optimizer.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "tests/expect_error.h"

namespace giro::optim {
namespace {

using test::expect_error;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();

TEST(Optimizer, Defaults) {
  const UpdateRule plain = sgd(0.1).rule;
  EXPECT_EQ(plain.rule, Rule::sgd);
  EXPECT_EQ(plain.learning_rate(0), 0.1f);
  EXPECT_EQ(plain.momentum, 0);
  EXPECT_FALSE(plain.nesterov);
  EXPECT_EQ(plain.weight_decay, 0);
  EXPECT_EQ(plain.max_norm, 0);

  const UpdateRule adaptive = adam(0.1).rule;
  EXPECT_EQ(adaptive.rule, Rule::adam);
  EXPECT_EQ(adaptive.beta1, 0.9);
  EXPECT_EQ(adaptive.beta2, 0.999);
  EXPECT_EQ(adaptive.epsilon, 1e-8);
  EXPECT_EQ(adaptive.weight_decay, 0);
  EXPECT_EQ(adamw(0.1).rule.weight_decay, 1e-4);
  EXPECT_FALSE(adamw(0.1).decay_mask);
}

TEST(Optimizer, OptionsReachTheRule) {
  const auto mask = [](const std::string& path) { return path == "kernel"; };
  const Optimizer a = sgd(0.5, {.momentum = 0.9, .nesterov = true, .weight_decay = 0.25, .decay_mask = mask});
  EXPECT_EQ(a.rule.momentum, 0.9);
  EXPECT_TRUE(a.rule.nesterov);
  EXPECT_EQ(a.rule.weight_decay, 0.25);
  EXPECT_TRUE(a.decay_mask("kernel"));
  EXPECT_FALSE(a.decay_mask("bias"));

  const Optimizer b =
      adamw(cosine(1.0, 10), {.b1 = 0.5, .b2 = 0.75, .eps = 1e-3, .weight_decay = 0.125, .decay_mask = mask});
  EXPECT_EQ(b.rule.beta1, 0.5);
  EXPECT_EQ(b.rule.beta2, 0.75);
  EXPECT_EQ(b.rule.epsilon, 1e-3);
  EXPECT_EQ(b.rule.weight_decay, 0.125);
  EXPECT_EQ(b.rule.learning_rate(0), 1.0f);
  EXPECT_EQ(b.rule.learning_rate(10), 0.0f);

  const Optimizer c = clip_by_global_norm(2.0, b);
  EXPECT_EQ(c.rule.max_norm, 2.0);
  EXPECT_EQ(c.rule.beta1, 0.5);
  EXPECT_TRUE(c.decay_mask("kernel"));
}

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
  refuses("nesterov", [] { sgd(0.1, {.nesterov = true}); });
  expect_error(ErrorCode::invalid_argument, {"-1"}, [] { adamw(-1.0); });
}

}  // namespace
}  // namespace giro::optim
