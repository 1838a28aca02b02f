#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <giro/callbacks/periodic_action.h>
#include <giro/callbacks/periodic_callback.h>
#include <giro/callbacks/profile.h>
#include <giro/callbacks/report_progress.h>
#include <giro/loop/loop.h>
#include <giro/runtime/files/archive.h>
#include <giro/runtime/files/trace.h>
#include <giro/runtime/span.h>

#include "tests/callbacks/bar_output.h"
#include "tests/callbacks/recording_writer.h"
#include "tests/support/expect_error.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/trace_file.h"

namespace giro {
namespace {

using test::expect_error;
using test::expect_invalid;
using Steps = std::vector<std::int64_t>;

// The steps from 1 to `last`, one second each, at which the action is due.
Steps due_steps(PeriodicAction action, std::int64_t last) {
  Steps due;
  for (std::int64_t step = 1; step <= last; ++step) {
    if (action(step, static_cast<double>(step))) due.push_back(step);
  }
  return due;
}

TEST(PeriodicAction, IsDueByStepsSecondsAndListedSteps) {
  EXPECT_EQ(due_steps({"a", {.every_steps = 2}}, 9), (Steps{2, 4, 6, 8}));
  EXPECT_EQ(due_steps({"a", {.every_secs = 2}}, 9), (Steps{4, 7}));  // more than 2 s after step 1 and step 4
  EXPECT_EQ(due_steps({"a", {.on_steps = {8, 3}}}, 9), (Steps{3, 8}));
  // Seconds count from the last run, whatever caused it.
  EXPECT_EQ(due_steps({"a", {.every_steps = 5, .every_secs = 3}}, 12), (Steps{5, 9, 10}));
  EXPECT_EQ(due_steps({"a", {}}, 9), Steps{});
}

TEST(PeriodicAction, RejectsGapsInCountedSteps) {
  PeriodicAction by_steps("save", {.every_steps = 3});
  by_steps(1, 0);
  expect_invalid({"save", "step 11", "step 1,", "every_steps = 3"}, [&] { by_steps(11, 0); });
  expect_invalid({"save", "step 1 ", "step 1,"}, [&] { by_steps(1, 0); });
  PeriodicAction by_seconds("save", {.every_secs = 3});
  by_seconds(1, 0);
  EXPECT_TRUE(by_seconds(11, 3.5));
}

TEST(PeriodicAction, RejectsEmptyIntervals) {
  expect_invalid({"save", "every_steps is 0"}, [] { PeriodicAction("save", {.every_steps = 0}); });
  expect_invalid({"save", "every_secs is 0"}, [] { PeriodicAction("save", {.every_secs = 0}); });
}

TEST(PeriodicAction, ContinuesAfterResume) {
  PeriodicAction action("a", {.every_steps = 4, .every_secs = 2.5});
  action(1, 1);
  action(2, 2);
  Archive archive;
  action.persist(archive);
  PeriodicAction again("a", {.every_steps = 4, .every_secs = 2.5});
  Archive read = Archive::read(archive.text());
  again.persist(read);
  again.begin({.steps = 2});
  EXPECT_FALSE(again(3, again.previous_time() + 2));
  EXPECT_TRUE(again(4, again.previous_time() + 2.4));
  EXPECT_THROW(again(6, 0), Error);
}

// "ReportProgress every 4, or every .3 s, fires at 4 with the note above; a gap 1→11 is an error"; also the shares of
// the parts.
class ReportProgressTest : public test::BarFile {
 protected:
  ReportProgress report(ReportProgressOptions options) {
    options.out = file_;
    options.clock = [this] { return now_; };
    return ReportProgress(options);
  }
  void expect_report_at_4(ReportProgress progress) {
    EXPECT_FALSE(progress.update(1, 100.00));
    EXPECT_FALSE(progress.update(2, 100.11));
    EXPECT_FALSE(progress.update(3, 100.24));
    EXPECT_TRUE(progress.update(4, 100.36));
    EXPECT_EQ(only_line(), "8.3 steps/s, 40.0% (4/10), ETA: 0m");
    EXPECT_EQ(progress.text(), only_line());
  }

  double now_ = 0;
};

TEST_F(ReportProgressTest, EveryFourStepsReportsAtStep4) {
  expect_report_at_4(report({.num_train_steps = 10, .every_steps = 4, .every_secs = {}}));
}

TEST_F(ReportProgressTest, EveryThreeTenthsOfASecondReportsAtStep4) {
  expect_report_at_4(report({.num_train_steps = 10, .every_secs = 0.3}));
}

TEST_F(ReportProgressTest, OmitsPercentageWithoutTotal) {
  ReportProgress progress = report({.num_train_steps = -1, .every_steps = 2});
  EXPECT_FALSE(progress.update(1, 100));
  EXPECT_TRUE(progress.update(2, 100.12));
  EXPECT_EQ(only_line(), "8.3 steps/s");
}

TEST_F(ReportProgressTest, GapFrom1To11IsAnError) {
  ReportProgress progress = report({.num_train_steps = 10, .every_steps = 3});
  progress.update(1, 0);
  expect_invalid({"report_progress", "step 11"}, [&] { progress.update(11, 0); });
}

TEST_F(ReportProgressTest, ReportsShareOfEachPart) {
  ReportProgress progress = report({.num_train_steps = 10, .every_steps = 1, .every_secs = {}});
  EXPECT_FALSE(progress.update(1));  // never on the first call
  auto part = [&, progress](const std::string& name, double end) mutable {
    const auto timed = progress.timed(name, Stream(Device::cpu()));  // copies share the counts
    now_ = end;
  };
  part("test1", 1);
  part("test2", 2);
  part("test1", 3);
  now_ = 4;
  EXPECT_TRUE(progress.update(2));
  EXPECT_EQ(only_line(), "0.2 steps/s, 20.0% (2/10), ETA: 0m (0m : 50.0% test1, 25.0% test2)");
}

TEST_F(ReportProgressTest, WritesSpeedAndUptime) {
  const auto writer = std::make_shared<test::RecordingWriter>();
  ReportProgress progress = report({.writer = writer, .every_steps = 2, .every_secs = {}});
  now_ = 1;
  progress.update(1);
  now_ = 2;
  progress.update(2);
  EXPECT_EQ(writer->calls, (std::vector<std::string>{"scalars 2 steps_per_sec=1 uptime=2"}));
}

TEST_F(ReportProgressTest, CountsDaysHoursAndMinutes) {
  ReportProgress progress = report({.num_train_steps = 100'001, .every_steps = 1, .every_secs = {}});
  progress.update(1, 0);
  progress.update(2, 1.2345678);
  EXPECT_EQ(only_line(), "0.8 steps/s, 0.0% (2/100001), ETA: 1d10h17m");
}

TEST_F(ReportProgressTest, ReportsInALoop) {
  // Times are taken as steps begin, so the arbiter's seconds agree with the text.
  ReportProgress progress = report({.num_train_steps = 10, .every_steps = 4, .every_secs = {}});
  EXPECT_EQ((Callback<int, int>(progress).kind()), CallbackKind::observer);
  EXPECT_TRUE((Callback<int, int>(progress)->traits.is_primary_only));
  const auto result = loop(0, std::vector<int>(10), {{every(1), progress}});
  const std::vector<std::string> all = lines();
  ASSERT_EQ(all.size(), 3u);  // steps 4 and 8, and the last one
  EXPECT_NE(all[0].find("40.0% (4/10)"), std::string::npos) << all[0];
  EXPECT_NE(all[1].find("80.0% (8/10)"), std::string::npos) << all[1];
  EXPECT_NE(all[2].find("100.0% (10/10), ETA: 0m"), std::string::npos) << all[2];
  // The next loop starts anew.
  (void)loop(0, std::vector<int>(4), {{every(1), progress}});
  EXPECT_EQ(lines().size(), 4u);
}

TEST(PeriodicCallback, EveryTwoStepsCallsAt2_4_6_8) {
  Steps called;
  PeriodicCallback callback(
      [&](std::int64_t step, double t) {
        EXPECT_EQ(t, 3);
        called.push_back(step);
      },
      {.every_steps = 2});
  for (std::int64_t step = 1; step < 10; ++step) EXPECT_EQ(callback.update(step, 3), step % 2 == 0);
  EXPECT_EQ(called, (Steps{2, 4, 6, 8}));
}

TEST(PeriodicCallback, EveryTwoSecondsCallsAt4And7) {
  Steps called;
  PeriodicCallback callback([&](std::int64_t step, double) { called.push_back(step); }, {.every_secs = 2});
  for (std::int64_t step = 1; step < 10; ++step) callback.update(step, static_cast<double>(step));
  EXPECT_EQ(called, (Steps{4, 7}));
}

TEST(PeriodicCallback, SeesTheLogsOfALoop) {
  std::vector<double> losses;
  int calls = 0;
  const auto step = [](const Elapsed& elapsed) { return logs().add_metric("loss", elapsed.steps); };
  const auto look = [&](std::int64_t, double, const Logs& logs) { losses.push_back(logs.entry_value("loss")); };
  (void)loop(0, std::vector<int>(7),
             {{every(1),
               {step, periodic_callback(look, {.every_steps = 3, .execute_async = true}),
                periodic_callback([&] { ++calls; }, {.on_steps = {7}})}}});
  EXPECT_EQ(losses, (std::vector<double>{2, 5}));
  EXPECT_EQ(calls, 1);
}

TEST(PeriodicCallback, AsynchronousCallsKeepOrder) {
  Steps called;
  PeriodicCallback callback([&](std::int64_t step, double) { called.push_back(step); },
                            {.every_steps = 1, .execute_async = true});
  for (std::int64_t step = 0; step < 4; ++step) callback.update(step);
  callback.join();
  EXPECT_EQ(called, (Steps{0, 1, 2, 3}));
}

TEST(PeriodicCallback, AsynchronousErrorIsThrownOnce) {
  const auto fail_at_0 = [](std::int64_t step, double) {
    if (step == 0) throw std::runtime_error("the disk is full");
  };
  PeriodicCallback callback(fail_at_0, {.every_steps = 1, .execute_async = true});
  callback.update(0);
  EXPECT_THROW(callback.join(), std::runtime_error);
  EXPECT_NO_THROW(callback.join());
  EXPECT_TRUE(callback.update(1));
  EXPECT_NO_THROW(callback.join());
}

TEST(PeriodicCallback, ErrorEndsTheLoop) {
  for (const bool async : {false, true}) {
    const auto fail = [] { throw std::runtime_error("the disk is full"); };
    expect_error(ErrorCode::callback, {"the disk is full"}, [&] {
      (void)loop(0, std::vector<int>(3),
                 {{every(1), periodic_callback(fail, {.every_steps = 2, .execute_async = async})}});
    });
  }
}

struct Profiled {
  Steps started, stopped;
  std::int64_t step = 0;

  ProfileOptions hooks(ProfileOptions options) {
    options.start = [this] { started.push_back(step); };
    options.stop = [this] { stopped.push_back(step); };
    return options;
  }
};

// "Profile (first 3, every 7, 2 steps, 2000 ms): start 3, 7, 14, stop 5, 10, 16"
TEST(Profile, StartsAt3_7_14AndStopsAt5_10_16) {
  Profiled seen;
  Profile profile(
      seen.hooks({.num_profile_steps = 2, .profile_duration_ms = 2000, .first_profile = 3, .every_steps = 7}));
  for (seen.step = 1; seen.step < 18; ++seen.step) {
    // From step 7 to 9 only 1.5 s pass.
    const double t = seen.step == 9 ? 8.5 : static_cast<double>(seen.step);
    const bool has_begun = profile.update(seen.step, t);
    EXPECT_EQ(has_begun, !seen.started.empty() && seen.started.back() == seen.step);
  }
  EXPECT_EQ(seen.started, (Steps{3, 7, 14}));
  EXPECT_EQ(seen.stopped, (Steps{5, 10, 16}));
}

TEST(Profile, DropsProfilesDueWhileOneRuns) {
  Profiled seen;
  Profile profile(seen.hooks({.num_profile_steps = 5, .profile_duration_ms = 0, .first_profile = 2, .every_steps = 3}));
  for (seen.step = 1; seen.step <= 9; ++seen.step) profile.update(seen.step, 0);
  EXPECT_EQ(seen.started, (Steps{2, 9}));  // not at 3 and 6
  EXPECT_EQ(seen.stopped, (Steps{7}));
  EXPECT_TRUE(profile.is_running());
}

TEST(Profile, EndsWithTheLoop) {
  Profiled seen;
  const Profile profile(seen.hooks({.first_profile = 2}));
  (void)loop(0, std::vector<int>(4), {{every(1), profile}});
  EXPECT_EQ(seen.started.size(), 1u);
  EXPECT_EQ(seen.stopped.size(), 1u);
  EXPECT_FALSE(profile.is_running());
  // With the device's profiler, if there is one.
  (void)loop(0, std::vector<int>(4), {{every(1), giro::profile({.first_profile = 2})}});
}

struct Increment {
  void operator()(int& state) const { ++state; }
};

// Expects a trace of exactly these steps.
void expect_traced(const std::string& path, std::int64_t first, std::int64_t last) {
  SCOPED_TRACE(path);
  const test::TraceFile file(path);
  std::vector<std::int64_t> steps;
  for (const auto& span : file.spans) {
    if (span.category == "callback" && span.args.contains("step") && span.name == "giro::Increment")
      steps.push_back(span.args.at("step"));
  }
  std::vector<std::int64_t> expected;
  for (std::int64_t step = first; step <= last; ++step) expected.push_back(step);
  EXPECT_EQ(steps, expected);
}

TEST(Profile, WritesATraceForEachProfile) {
  const test::TemporaryDirectory dir;
  const std::string logdir = dir.path() + "/a/b";
  const auto options = [&](std::int64_t first) {
    return ProfileOptions{
        .num_profile_steps = 2, .profile_duration_ms = 0, .first_profile = first, .on_steps = {7}, .logdir = logdir};
  };
  const auto run = [&](std::int64_t first, std::int64_t done = 0) {
    (void)loop(0, std::vector<int>(9), {{every(1), {Increment(), giro::profile(options(first))}}},
               {.elapsed = {.steps = done}});
  };
  run(3);
  // The profile begins after three steps, and sees a step's logs when the step has ended.
  expect_traced(logdir + "/trace_3.json", 3, 4);
  expect_traced(logdir + "/trace_7.json", 7, 8);
  run(0);
  expect_traced(logdir + "/trace_0.json", 0, 1);
  run(0, 50);  // a resumed run
  expect_traced(logdir + "/trace_50.json", 50, 51);
  EXPECT_FALSE(detail::is_watched());
}

// In a task with gaps each acts in the first of its steps at or after those of its interval.
TEST(PeriodicAction, SchedulesMayHaveGaps) {
  Profiled seen;
  Steps called, reported;
  const auto writer = std::make_shared<test::RecordingWriter>();
  const auto at_each = [&](const Schedule& schedule) {
    seen.started.clear();
    seen.stopped.clear();
    called.clear();
    (void)loop(0, std::vector<int>(600),
               {{every(1), [&](const Elapsed& elapsed) { seen.step = elapsed.steps + 1; }},
                {schedule, Profile(seen.hooks({.num_profile_steps = 5, .profile_duration_ms = 0, .every_steps = 150}))},
                {schedule, periodic_callback([&](std::int64_t step, double) { called.push_back(step); },
                                             {.every_steps = 150, .on_steps = {350}})}});
  };
  at_each(every(100));                              // sees steps 1, 101, 201, ...
  EXPECT_EQ(seen.started, (Steps{101, 301, 501}));  // for 10, 300 and 450
  EXPECT_EQ(seen.stopped, (Steps{201, 401, 600}));
  EXPECT_EQ(called, (Steps{201, 301, 401, 501}));
  at_each(after(5));
  EXPECT_EQ(seen.started, (Steps{10, 150, 300, 450, 600}));
  EXPECT_EQ(called, (Steps{150, 300, 350, 450, 600}));

  PeriodicAction once("a", {.every_steps = 150});
  once.see(1, 0);
  once.see(301, 0);
  EXPECT_TRUE(once.is_due(0));
  once.see(302, 0);
  EXPECT_FALSE(once.is_due(0));
  ReportProgress progress({.out = nullptr, .every_steps = 150});
  (void)loop(0, std::vector<int>(600), {{every(100), progress}});
  EXPECT_NE(progress.text(), "");
}

TEST(Profile, ReportsWhereATraceCannotBeWritten) {
  const test::TemporaryDirectory dir;
  const std::string file = dir.path() + "/file";
  std::ofstream(file) << "mine";
  const auto run = [](const ProfileOptions& options) {
    (void)loop(0, std::vector<int>(9), {{every(1), giro::profile(options)}});
  };
  expect_error(ErrorCode::io, {"task 1, every(1): giro::Profile, at step 2", file},
               [&] { run({.first_profile = 3, .logdir = file}); });
  expect_error(ErrorCode::io, {"giro::Profile, at step 3", "create trace_3.json"}, [&] {
    const auto files = std::make_shared<test::FaultyFileSystem>(2);  // after creating the directory
    run({.num_profile_steps = 1, .profile_duration_ms = 0, .first_profile = 3, .logdir = dir.path(), .files = files});
  });
  const Trace running;
  expect_invalid({"giro::Profile, at step 2", "a trace is already running in this process"},
                 [&] { run({.first_profile = 3, .logdir = dir.path()}); });
}

TEST(Profile, RejectsEmptyProfile) {
  expect_invalid({"profile", "num_profile_steps and profile_duration_ms are 0"},
                 [] { Profile({.num_profile_steps = 0, .profile_duration_ms = 0}); });
  expect_invalid({"profile", "num_profile_steps is -1"}, [] { Profile({.num_profile_steps = -1}); });
}

}  // namespace
}  // namespace giro
