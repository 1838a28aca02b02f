// Random schedules: when and how often they are asked makes no difference.

#include <gtest/gtest.h>

#include <cstdint>

#include <giro/loop/time/schedule.h>

#include "tests/loop/time/random_schedule.h"
#include "tests/support/sanitized.h"

namespace giro {
namespace {

using test::RandomSchedule;

std::int64_t size_of_batch(int step) { return step * 7 % 5 + 1; }
Elapsed start() { return {.date = 1'000, .date_start = 1'000, .previous_date = 1'000, .tokens_per_sample = 3}; }
void advance(Elapsed& elapsed, int step) {
  elapsed.count(size_of_batch(step));
  elapsed.date += 0.125 * (1 + step % 3);
}

TEST(ScheduleProperty, EvaluatingAtNextEqualsEvaluatingEachStep) {
  constexpr int kTrees = test::cases(10'000), kSteps = 1'000;
  std::int64_t asked = 0, due = 0;
  for (unsigned seed = 0; seed < kTrees; ++seed) {
    RandomSchedule draw(seed, {.time = true, .last = true, .tokens = true});
    Schedule each_step = draw.schedule();
    Schedule seldom = each_step;
    Period next = at(0);
    Elapsed elapsed = start();
    for (int i = 0; i < kSteps; ++i) {
      elapsed.last = i + 1 == kSteps;
      elapsed.step_samples = size_of_batch(i);
      const bool expected = each_step(elapsed);
      bool found = false;
      if (elapsed >= next || elapsed.last) {
        found = seldom(elapsed);
        next = seldom.next(elapsed);
        ++asked;
      }
      ASSERT_EQ(found, expected) << to_string(each_step) << " at step " << i << ", seed " << seed;
      due += expected;
      advance(elapsed, i);
    }
  }
  // The draws are meaningful: many steps were due, and many were not asked about.
  EXPECT_GT(due, kTrees * kSteps / 20);
  EXPECT_LT(asked, kTrees * std::int64_t{kSteps} * 3 / 4);
}

// Each step asks three schedules: `once`, a single time; `often`, twice and each time again as if the step turned out
// to be the last; and `at_the_end`, a copy of `once` that knows from the start that the step is the last.
TEST(ScheduleProperty, RepeatedEvaluationInAStepChangesNothing) {
  constexpr int kTrees = test::cases(3'000), kSteps = 300;
  std::int64_t brought_by_last = 0, due = 0;
  for (unsigned seed = 0; seed < kTrees; ++seed) {
    RandomSchedule draw(seed, {.time = true, .last = true, .counting = true, .tokens = true});
    Schedule once = draw.schedule();
    Schedule often = once;
    Elapsed elapsed = start();
    for (int i = 0; i < kSteps; ++i) {
      elapsed.step_samples = size_of_batch(i);
      Elapsed last = elapsed;
      last.last = true;
      Schedule at_the_end = once;
      const bool expected = once(elapsed), expected_last = at_the_end(last);
      for (int k = 0; k < 2; ++k) {
        ASSERT_EQ(often(elapsed), expected) << to_string(once) << " at step " << i << ", seed " << seed;
        ASSERT_EQ(often(last), expected_last) << to_string(once) << " at step " << i << ", the last, seed " << seed;
      }
      ASSERT_EQ(to_string(often.next(elapsed)), to_string(once.next(elapsed))) << to_string(once) << ", seed " << seed;
      if (expected_last && !expected) {
        ASSERT_TRUE(once.traits().awaits_end) << to_string(once);
      }
      due += expected;
      brought_by_last += expected_last && !expected;
      advance(elapsed, i);
    }
  }
  EXPECT_GT(due, kTrees * kSteps / 20);
  EXPECT_GT(brought_by_last, kTrees * kSteps / 100);
}

}  // namespace
}  // namespace giro
