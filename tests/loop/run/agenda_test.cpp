#include "loop/run/agenda.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

namespace giro::detail {
namespace {

using Due = std::vector<std::pair<std::int64_t, std::size_t>>;  // step, task

// Tasks of these schedules.
std::vector<AnyTask> without_callbacks(std::vector<Schedule> schedules) {
  std::vector<AnyTask> result;
  for (Schedule& schedule : schedules) result.push_back({std::move(schedule)});
  return result;
}
std::size_t task_number(const Agenda& agenda, const Agenda::Task& task) {
  return static_cast<std::size_t>(&task - agenda.tasks().data());
}

// Asks the agenda as a run does: in the steps that are not idle.
struct Asked {
  Due due;
  std::int64_t steps = 0;  // steps with at least one question

  Asked(Agenda& agenda, std::int64_t count) {
    Elapsed elapsed;
    for (; elapsed.steps < count; elapsed.count(1)) {
      elapsed.step_samples = 1;
      elapsed.last = elapsed.steps + 1 == count;
      if (agenda.is_idle(elapsed)) continue;
      ++steps;
      agenda.evaluate(
          elapsed, false, [](const auto&) {},
          [&](Agenda::Task& task) { due.emplace_back(elapsed.steps, task_number(agenda, task)); });
    }
  }
};

TEST(Agenda, TasksAreDueInOrder) {
  Agenda agenda(without_callbacks({every(2), every(3), always()}));
  EXPECT_EQ(Asked(agenda, 4).due, (Due{{0, 0}, {0, 1}, {0, 2}, {1, 2}, {2, 0}, {2, 2}, {3, 1}, {3, 2}}));
}

TEST(Agenda, EvaluatesNothingInIdleSteps) {
  Agenda agenda(without_callbacks({every(100), every(250) | last(), never()}));
  const Asked asked(agenda, 1'000);
  EXPECT_EQ(asked.due, (Due{{0, 0},
                            {0, 1},
                            {100, 0},
                            {200, 0},
                            {250, 1},
                            {300, 0},
                            {400, 0},
                            {500, 0},
                            {500, 1},
                            {600, 0},
                            {700, 0},
                            {750, 1},
                            {800, 0},
                            {900, 0},
                            {999, 1}}));
  EXPECT_LE(asked.steps, 15);
}

TEST(Agenda, KnowsWhatTasksWaitFor) {
  EXPECT_FALSE(Agenda(without_callbacks({every(2)})).awaits_end());
  EXPECT_TRUE(Agenda(without_callbacks({every(2), every(3) | last()})).awaits_end());
  EXPECT_FALSE(Agenda(without_callbacks({every(2)})).reads_clock());
  EXPECT_TRUE(Agenda(without_callbacks({every({.time = 2.0})})).reads_clock());
}

TEST(Agenda, ReportsTraitsBeforeEvaluating) {
  Agenda agenda(without_callbacks({every(1), [](const Elapsed&) { return true; }, every({.time = 1.0})}));
  int users = 0, clocks = 0;
  agenda.evaluate(
      Elapsed{}, false,
      [&](const auto& traits) {
        users += traits.runs_user_code;
        clocks += traits.reads_clock;
      },
      [](Agenda::Task&) {});
  EXPECT_EQ(users, 1);
  EXPECT_EQ(clocks, 2);  // a function may read the clock as well
}

// A step turns out to be the last after its schedules were asked.
TEST(Agenda, EvaluatesAgainAtTheEnd) {
  Agenda agenda(without_callbacks({every({.samples = 3}) & last(), every(4), last(), every(2) | last()}));
  Elapsed elapsed;
  std::vector<std::size_t> due;
  const auto note = [&](Agenda::Task& task) { due.push_back(task_number(agenda, task)); };
  for (; elapsed.steps < 9; elapsed.count(1))
    agenda.evaluate(
        elapsed, false, [](const auto&) {}, [](Agenda::Task&) {});
  agenda.evaluate(
      elapsed, false, [](const auto&) {}, note);
  EXPECT_EQ(due, (std::vector<std::size_t>{}));
  elapsed.last = true;
  agenda.evaluate(
      elapsed, true, [](const auto&) {}, note);
  EXPECT_EQ(due, (std::vector<std::size_t>{0, 2, 3}));
}

TEST(Agenda, NamesTheFailingSchedule) {
  Agenda agenda(without_callbacks({every(1), [](const Elapsed&) -> bool { throw std::runtime_error("mine"); }}));
  EXPECT_EQ(agenda.evaluating(), nullptr);
  EXPECT_THROW(agenda.evaluate(
                   Elapsed{}, false, [](const auto&) {}, [](Agenda::Task&) {}),
               std::runtime_error);
  EXPECT_EQ(agenda.evaluating(), &agenda.tasks()[1]);
}

}  // namespace
}  // namespace giro::detail
