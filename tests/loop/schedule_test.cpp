#include <giro/loop/schedule.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "tests/expect_error.h"

namespace giro {
namespace {

using test::expect_error;
using Steps = std::vector<std::int64_t>;

// The steps at which the schedule is due, given a batch size and a duration of each step.
Steps due_steps(Schedule schedule, std::int64_t steps, std::int64_t batch = 1, double seconds = 0) {
  Steps due;
  for (std::int64_t i = 0; i < steps; ++i) {
    const Elapsed elapsed{
        .steps = i, .samples = i * batch, .date = 1'000 + seconds * static_cast<double>(i), .date_start = 1'000};
    if (schedule(elapsed)) due.push_back(i);
  }
  return due;
}

TEST(Every, Steps) {
  EXPECT_EQ(due_steps(every(2), 8), (Steps{0, 2, 4, 6}));
  EXPECT_EQ(due_steps(every(1), 4), (Steps{0, 1, 2, 3}));
  EXPECT_EQ(due_steps(every({.steps = 3}), 8), (Steps{0, 3, 6}));
}

TEST(Every, SamplesDoNotDrift) {
  // 5, 10, 15 and 20 samples are first passed at 6, 10, 16 and 20.
  EXPECT_EQ(due_steps(every({.samples = 5}), 11, 2), (Steps{3, 5, 8, 10}));
  EXPECT_EQ(due_steps(every({.samples = 2}), 4, 2), (Steps{1, 2, 3}));
  // A batch that passes several multiples is due once.
  EXPECT_EQ(due_steps(every({.samples = 3}), 4, 10), (Steps{1, 2, 3}));
}

TEST(Every, NoBoundaryIsMissedWhenCountersJump) {
  Schedule schedule = every({.samples = 100});
  EXPECT_FALSE(schedule({.steps = 0, .samples = 99}));
  EXPECT_TRUE(schedule({.steps = 1, .samples = 350}));
  EXPECT_FALSE(schedule({.steps = 2, .samples = 399}));
  EXPECT_TRUE(schedule({.steps = 3, .samples = 400}));
}

TEST(Every, Time) {
  EXPECT_EQ(due_steps(every({.time = 1.0}), 11, 1, 0.25), (Steps{4, 8}));
  EXPECT_EQ(due_steps(every({.time = 0.5}), 4, 1, 2.0), (Steps{1, 2, 3}));
}

TEST(Every, AnyFieldFires) {
  EXPECT_EQ(due_steps(every({.steps = 4, .samples = 5}), 9, 2), (Steps{0, 3, 4, 5, 8}));
}

TEST(Every, CopiesRememberOnTheirOwn) {
  Schedule schedule = every({.samples = 5});
  Schedule copy = schedule;
  EXPECT_TRUE(schedule({.samples = 5}));
  EXPECT_TRUE(copy({.samples = 5}));
  EXPECT_FALSE(copy({.samples = 5}));
}

TEST(Every, Errors) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  expect_error(ErrorCode::invalid_argument, {"every", "found 0"}, [] { every(0); });
  expect_error(ErrorCode::invalid_argument, {"every", "found -3"}, [] { every(-3); });
  expect_error(ErrorCode::invalid_argument, {"every", "{.samples = 0}"}, [] { every({.samples = 0}); });
  expect_error(ErrorCode::invalid_argument, {"every", "{.time = 0}"}, [] { every({.time = 0.0}); });
  expect_error(ErrorCode::invalid_argument, {"every", "nan"}, [nan] { every({.time = nan}); });
  expect_error(ErrorCode::invalid_argument, {"every", "none"}, [] { every(Period{}); });
  expect_error(ErrorCode::invalid_argument, {"every", "date"}, [] { every({.steps = 1, .date = 1.0}); });
}

TEST(Schedule, AnyCallable) {
  EXPECT_EQ(due_steps([](const Elapsed& e) { return e.steps > 2; }, 5), (Steps{3, 4}));
  EXPECT_EQ(due_steps([count = 0](const Elapsed&) mutable { return ++count == 2; }, 5), Steps{1});
}

}  // namespace
}  // namespace giro
