#include <giro/loop/time/clock.h>

#include <gtest/gtest.h>

#include <cmath>

#include <giro/loop/time/elapsed.h>
#include <giro/loop/time/schedule.h>

namespace giro {
namespace {

TEST(Clock, StartsAtSystemTime) {
  const Clock::Reading reading = Clock::Reading::now();
  EXPECT_GT(reading.system, 1.6e9) << "seconds since 1970";
  EXPECT_EQ(Clock(reading).date(reading), reading.system);
  EXPECT_LT(std::abs(Clock::now() - reading.system), 5.0);
}

TEST(Clock, NeverGoesBack) {
  double before = Clock::now();
  for (int i = 0; i < 10'000; ++i) {
    const double now = Clock::now();
    ASSERT_GE(now, before);
    before = now;
  }
}

// Every ten seconds, while the system clock is set back by an hour, and forward by a day.
TEST(Clock, IgnoresChangesOfTheSystemClock) {
  const Clock clock({.system = 1'000'000, .steady = 50});
  Schedule schedule = every({.time = 10.0});
  int due = 0;
  Elapsed elapsed{.date = 1'000'000, .date_start = 1'000'000, .previous_date = 1'000'000};
  for (int second = 1; second <= 100; ++second) {
    const double set = second < 30 ? 0 : second < 60 ? -3'600 : 86'400;
    elapsed.count(1);
    elapsed.date = clock.date({.system = 1'000'000 + second + set, .steady = 50.0 + second});
    EXPECT_EQ(elapsed.time(), second);
    due += schedule(elapsed);
  }
  EXPECT_EQ(due, 10);
}

TEST(Clock, IsUsedByElapsed) {
  const double before = Clock::now();
  const double between = Elapsed::now();
  EXPECT_LE(before, between);
  EXPECT_LE(between, Clock::now());
}

}  // namespace
}  // namespace giro
