#include <giro/loop/time/elapsed.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "tests/support/expect_error.h"

namespace giro {
namespace {

Elapsed elapsed_of(std::int64_t steps, std::int64_t samples = 0, double time = 0) {
  return {.steps = steps, .samples = samples, .date = 1'000 + time, .date_start = 1'000};
}

// Reference test 1: a period of 10 steps.
TEST(Elapsed, TenSteps) {
  Elapsed elapsed;
  const Period period = at(10);
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(elapsed < period);
    elapsed.update(1);
    EXPECT_TRUE(elapsed <= period);
  }
  EXPECT_TRUE(elapsed == period);
  EXPECT_FALSE(elapsed != period);
  EXPECT_TRUE(elapsed >= period);
  EXPECT_FALSE(elapsed > period);
  elapsed.update(1);
  EXPECT_TRUE(elapsed > period);
  EXPECT_FALSE(elapsed == period);
  EXPECT_FALSE(elapsed <= period);
}

// The six comparisons follow from >= and >.
void expect_consistent(const Elapsed& e, const Period& p) {
  EXPECT_EQ(e < p, !(e >= p));
  EXPECT_EQ(e <= p, !(e > p));
  EXPECT_EQ(e == p, e >= p && !(e > p));
  EXPECT_EQ(e != p, !(e == p));
  EXPECT_TRUE(e >= p || !(e > p));
}

TEST(Elapsed, AnyFieldIsReached) {
  const Period period = at({.steps = 10, .samples = 100, .time = 60.0, .date = 5'000.0});
  const Elapsed none = elapsed_of(9, 99, 59.5);
  EXPECT_FALSE(none >= period);
  for (const Elapsed& one :
       {elapsed_of(10, 99, 59), elapsed_of(9, 100, 59), elapsed_of(9, 99, 60), Elapsed{9, 99, 5'000, 4'990}}) {
    EXPECT_TRUE(one >= period);
    EXPECT_FALSE(one > period);
    EXPECT_TRUE(one == period);
    expect_consistent(one, period);
  }
  for (const Elapsed& one : {elapsed_of(11), elapsed_of(0, 101), elapsed_of(0, 0, 61), Elapsed{0, 0, 5'001, 4'990}}) {
    EXPECT_TRUE(one > period);
    expect_consistent(one, period);
  }
  expect_consistent(none, period);
  // One field exceeded, the other not reached.
  EXPECT_TRUE(elapsed_of(11, 0) > at({.steps = 10, .samples = 100}));
}

TEST(Elapsed, EmptyPeriodIsNeverReached) {
  const Elapsed far = elapsed_of(INT64_MAX, INT64_MAX, 1e300);
  EXPECT_FALSE(far >= Period{});
  EXPECT_FALSE(far > Period{});
}

TEST(Elapsed, UpdateCountsABatch) {
  Elapsed elapsed{.steps = 4, .samples = 40, .date = 0, .date_start = 0};
  const double before = Elapsed::now();
  elapsed.update(7);
  EXPECT_EQ(elapsed.steps, 5);
  EXPECT_EQ(elapsed.samples, 47);
  EXPECT_GE(elapsed.date, before);
  EXPECT_LE(elapsed.date, Elapsed::now());
  EXPECT_GT(before, 1.6e9);  // seconds since 1970
}

TEST(Elapsed, DifferenceIsTheInterval) {
  const Elapsed between = elapsed_of(10, 100, 50) - elapsed_of(4, 30, 20);
  EXPECT_EQ(between.steps, 6);
  EXPECT_EQ(between.samples, 70);
  EXPECT_EQ(between.time(), 30);
}

TEST(Elapsed, TokensAreDerivedFromSamples) {
  const Elapsed elapsed{.steps = 2, .samples = 5, .tokens_per_sample = 7};
  EXPECT_EQ(elapsed.tokens(), 35);
  EXPECT_EQ(elapsed.samples_with(34), 5);
  EXPECT_EQ(elapsed.samples_with(35), 5);
  EXPECT_EQ(elapsed.samples_with(36), 6);
  EXPECT_EQ(elapsed.samples_with(0), 0);
  EXPECT_EQ(elapsed.samples_with(INT64_MAX), INT64_MAX / 7);  // a multiple of 7
  EXPECT_TRUE(elapsed == at({.tokens = 35}));
  EXPECT_TRUE(elapsed > at({.tokens = 34}));
  EXPECT_TRUE(elapsed < at({.tokens = 36}));
  const Elapsed between = elapsed - Elapsed{.samples = 2, .tokens_per_sample = 7};
  EXPECT_EQ(between.tokens(), 21);
}

TEST(Elapsed, UnknownTokensAreAnError) {
  for (const std::int64_t each : {0, -1}) {
    const Elapsed elapsed{.samples = 5, .tokens_per_sample = each};
    test::expect_invalid({"tokens_per_sample", std::to_string(each)}, [&] { (void)(elapsed >= at({.tokens = 3})); });
    EXPECT_FALSE(elapsed >= at({.samples = 6}));
  }
}

}  // namespace
}  // namespace giro
