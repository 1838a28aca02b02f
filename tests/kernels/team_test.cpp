#include "kernels/cpu/team.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace giro::cpu {
namespace {

TEST(TeamTest, ReleasesThreadsWhilePreempted) {
  ContentionMonitor monitor;
  EXPECT_TRUE(monitor.due(100));
  EXPECT_EQ(monitor.update(100, 1'000'000, 4), 0);  // the count before the first call is ignored
  EXPECT_FALSE(monitor.due(100.15));
  EXPECT_TRUE(monitor.due(100.21));
  EXPECT_EQ(monitor.update(100.25, 1'000'020, 4), 0);  // 80 per second
  EXPECT_EQ(monitor.update(100.5, 1'000'070, 4), 1);   // 200 per second
  EXPECT_EQ(monitor.update(100.75, 1'000'120, 4), 2);
  EXPECT_EQ(monitor.update(101.0, 1'000'170, 4), 3);
  EXPECT_EQ(monitor.update(101.25, 1'000'220, 4), 3);  // one thread always works
}

TEST(TeamTest, RetriesAThreadAfterAQuietPeriod) {
  ContentionMonitor monitor;
  monitor.update(100, 0, 4);
  monitor.update(100.25, 50, 4);
  ASSERT_EQ(monitor.update(100.5, 100, 4), 2);
  EXPECT_EQ(monitor.update(100.75, 100, 4), 2);  // calm, but not for long
  EXPECT_EQ(monitor.update(102.25, 101, 4), 2);
  EXPECT_EQ(monitor.update(102.75, 101, 4), 1);
  EXPECT_EQ(monitor.update(103.0, 101, 4), 0);
  EXPECT_EQ(monitor.update(103.25, 151, 4), 1);  // the thread added last was one too many
  EXPECT_EQ(monitor.update(105.0, 151, 4), 1);
  EXPECT_EQ(monitor.update(105.5, 151, 4), 0);
  EXPECT_EQ(monitor.update(205.5, 1'000, 4), 0);  // a long time without parallel work is one window
}

TEST(TeamTest, ToleratesOccasionalPreemptionOnIdleCpus) {
  ContentionMonitor monitor;
  monitor.update(100, 0, 64);
  EXPECT_EQ(monitor.update(101, 150, 64), 0);
  EXPECT_EQ(monitor.update(102, 400, 64), 1);
}

double involuntary_switches() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_nivcsw);
}

TEST(TeamTest, UsesFewerThreadsBesideBusyProcesses) {
  const ThreadLimit two(2);
  std::atomic<bool> ends = false;
  std::vector<std::jthread> busy;
  for (unsigned int i = 0; i < 2 * std::thread::hardware_concurrency(); ++i) {
    busy.emplace_back([&ends] {
      while (!ends) {
      }
    });
  }
  team_threads();  // starts a window, unless one has begun
  int threads = 2;
  bool interrupted = false;  // twice as often as a team tolerates
  for (int attempt = 0; attempt < 10 && !interrupted; ++attempt) {
    const double before = involuntary_switches();
    const auto begin = std::chrono::steady_clock::now();
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
    interrupted = involuntary_switches() - before > 240 * passed.count();
    threads = team_threads();
  }
  ends = true;
  busy.clear();
  if (!interrupted) GTEST_SKIP() << "twice as many busy threads as CPUs were hardly ever interrupted";
  EXPECT_EQ(threads, 1);
}

}  // namespace
}  // namespace giro::cpu
