#include <giro/loop/time/schedule.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "tests/support/expect_error.h"

namespace giro {
namespace {

using test::expect_invalid;
using Steps = std::vector<std::int64_t>;

// The steps at which the schedule is due, given a batch size and a duration of each step.
Steps due_steps(Schedule schedule, std::int64_t steps, std::int64_t batch = 1, double seconds = 0,
                std::int64_t tokens_per_sample = 0) {
  Steps due;
  for (std::int64_t i = 0; i < steps; ++i) {
    const Elapsed elapsed{.steps = i,
                          .samples = i * batch,
                          .date = 1'000 + seconds * static_cast<double>(i),
                          .date_start = 1'000,
                          .step_samples = batch,
                          .tokens_per_sample = tokens_per_sample};
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

TEST(Every, TokensNeedNotBeAMultipleOfTheBatch) {
  const auto due = [](const Schedule& schedule, std::int64_t steps) { return due_steps(schedule, steps, 2, 0, 8); };
  // Batches of 16 tokens: 50, 100, 150 and 200 tokens are first passed at 64, 112, 160 and 208.
  EXPECT_EQ(due(every({.tokens = 50}), 14), (Steps{4, 7, 10, 13}));
  EXPECT_EQ(due(every_end({.tokens = 50}), 14), (Steps{3, 6, 9, 12}));
  EXPECT_EQ(due(every({.tokens = 7}), 4), (Steps{1, 2, 3}));
  EXPECT_EQ(due(every({.steps = 5, .tokens = 50}), 8), (Steps{0, 4, 5, 7}));
  // 50 tokens are reached in the 7th sample, so the next 30 with the 11th.
  EXPECT_EQ(due(after({.tokens = 50}), 6), (Steps{4, 5}));
  EXPECT_EQ(due(after({.tokens = 50}).every({.tokens = 30}), 10), (Steps{6, 8}));
  EXPECT_EQ(to_string(every({.tokens = 50})), "every({.tokens = 50})");
}

TEST(Every, UnknownTokensAreAnError) {
  expect_invalid({"tokens_per_sample", "0"}, [] { due_steps(every({.tokens = 5}), 1); });
  expect_invalid({"tokens_per_sample", "0"}, [] { due_steps(every_end({.tokens = 5}), 1); });
  expect_invalid({"every", "{.tokens = 0}"}, [] { every({.tokens = 0}); });
  expect_invalid({"every_end", "{.tokens = -1}"}, [] { every_end({.tokens = -1}); });
  expect_invalid({"at({.tokens = 9})", "after at({.tokens = 9})"}, [] {
    piecewise(never(), {{at({.tokens = 9}), always()}, {at({.tokens = 9}), always()}});
  });
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

TEST(Every, AnyFieldFires) { EXPECT_EQ(due_steps(every({.steps = 4, .samples = 5}), 9, 2), (Steps{0, 3, 4, 5, 8})); }

TEST(Every, CopiesHaveTheirOwnMemory) {
  Schedule schedule = every({.samples = 5});
  Schedule copy = schedule;
  EXPECT_TRUE(schedule({.steps = 1, .samples = 5}));
  EXPECT_TRUE(copy({.steps = 1, .samples = 5}));
  EXPECT_FALSE(copy({.steps = 2, .samples = 5}));
}

TEST(Every, Errors) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  expect_invalid({"every", "found 0"}, [] { every(0); });
  expect_invalid({"every", "found -3"}, [] { every(-3); });
  expect_invalid({"every", "{.samples = 0}"}, [] { every({.samples = 0}); });
  expect_invalid({"every", "{.time = 0}"}, [] { every({.time = 0.0}); });
  expect_invalid({"every", "nan"}, [nan] { every({.time = nan}); });
  expect_invalid({"every", "none"}, [] { every(Period{}); });
  expect_invalid({"every", "date"}, [] { every({.steps = 1, .date = 1.0}); });
}

TEST(EveryEnd, CompletesMultiples) {
  EXPECT_EQ(due_steps(every_end(3), 12), (Steps{2, 5, 8, 11}));
  EXPECT_EQ(due_steps(every_end(1), 3), (Steps{0, 1, 2}));
  // The multiples of 5 up to 20 are reached in the steps that end at 6, 10, 16 and 20 samples.
  EXPECT_EQ(due_steps(every_end({.samples = 5}), 10, 2), (Steps{2, 4, 7, 9}));
  EXPECT_EQ(due_steps(every_end({.samples = 3}), 3, 10), (Steps{0, 1, 2}));
  EXPECT_EQ(due_steps(every_end({.steps = 4, .samples = 5}), 9, 2), (Steps{2, 3, 4, 7}));
  EXPECT_EQ(due_steps(after(4).then(every_end(3)), 12), (Steps{6, 9}));
}

// A schedule that is asked only at the steps from next() is due at the same steps as one that is asked at every step.
TEST(EveryEnd, Next) {
  for (const Period& period : {at(1), at(3), at(7), at({.samples = 5}), at({.steps = 4, .samples = 9})}) {
    Schedule schedule = every_end(period);
    Steps due;
    std::int64_t wake = 0, asked = 0;
    for (std::int64_t i = 0; i < 50; ++i) {
      if (i < wake) continue;
      const Elapsed elapsed{.steps = i, .samples = 2 * i, .step_samples = 2};
      if (schedule(elapsed)) due.push_back(i);
      wake = schedule.next(elapsed).steps.value();
      EXPECT_GT(wake, i);
      ++asked;
    }
    EXPECT_EQ(due, due_steps(every_end(period), 50, 2)) << to_string(schedule);
    if (!period.samples) {
      EXPECT_LE(asked, 50 / *period.steps + 1) << to_string(schedule);
    }
  }
}

TEST(EveryEnd, Errors) {
  expect_invalid({"every_end", "found 0"}, [] { every_end(0); });
  expect_invalid({"every_end", "{.samples = -1}"}, [] { every_end({.samples = -1}); });
  expect_invalid({"every_end", "{.time = 1}"}, [] { every_end({.time = 1.0}); });
  expect_invalid({"every_end", "found {}"}, [] { every_end(Period{}); });
}

TEST(Schedule, AnyCallable) {
  EXPECT_EQ(due_steps([](const Elapsed& e) { return e.steps > 2; }, 5), (Steps{3, 4}));
  EXPECT_EQ(due_steps([count = 0](const Elapsed&) mutable { return ++count == 2; }, 5), Steps{1});
}

// Reference test 3: combinations.
TEST(Schedule, CombinationsOfSteps) {
  for (std::int64_t step = 0; step < 30; ++step) {
    const Elapsed elapsed{.steps = step};
    EXPECT_EQ((every(2) & every(3))(elapsed), step % 2 == 0 && step % 3 == 0);
    EXPECT_EQ((every(2) | every(3))(elapsed), step % 2 == 0 || step % 3 == 0);
    EXPECT_EQ((!every(2))(elapsed), step % 2 != 0);
  }
  EXPECT_EQ(due_steps(after(3).every(5), 10), (Steps{3, 8}));
  EXPECT_EQ(due_steps(always(), 3), (Steps{0, 1, 2}));
  EXPECT_EQ(due_steps(never(), 3), Steps{});
}

TEST(Schedule, After) {
  EXPECT_EQ(due_steps(after(3), 6), (Steps{3, 4, 5}));
  EXPECT_EQ(due_steps(after(3).then(!every(2)), 8), (Steps{4, 6}));
  EXPECT_EQ(due_steps(after(3) >> !every(2), 8), (Steps{4, 6}));
  EXPECT_EQ(due_steps(
                after(3) >> [](const Elapsed& e) { return e.steps == 1; }, 8),
            Steps{4});
  EXPECT_EQ(due_steps(after({.samples = 5}), 5, 2), (Steps{3, 4}));
  // Samples count from the boundary, not from where it is noticed: 5, 9, 13.
  EXPECT_EQ(due_steps(after({.samples = 5}).every({.samples = 4}), 8, 2), (Steps{5, 7}));
  EXPECT_EQ(due_steps(after({.time = 1.0}).every({.time = 1.0}), 13, 1, 0.25), (Steps{8, 12}));
  // A loop that begins after the boundary still counts from it.
  Schedule late = after(3).every(5);
  Steps due;
  for (std::int64_t step = 6; step < 15; ++step) {
    if (late({.steps = step})) due.push_back(step);
  }
  EXPECT_EQ(due, (Steps{8, 13}));
}

TEST(Schedule, Piecewise) {
  EXPECT_EQ(due_steps(piecewise(every(2), {{at(5), every(3)}, {at(11), never()}}), 30), (Steps{0, 2, 4, 5, 8}));
  EXPECT_EQ(due_steps(piecewise(never(), {{at({.samples = 4}), always()}, {at(4), never()}}), 9, 2), (Steps{2, 3}));
  // A boundary that is skipped counts as passed.
  Schedule schedule = piecewise(always(), {{at(2), never()}, {at(4), always()}});
  EXPECT_TRUE(schedule({.steps = 1}));
  EXPECT_TRUE(schedule({.steps = 9}));
}

// every(5 samples) with batches of two: a new schedule that continues a loop is due at the same steps.
TEST(Schedule, SamplesContinueInAContinuedLoop) {
  Steps whole, parts;
  Schedule schedule = every({.samples = 5});
  Elapsed elapsed;
  for (int i = 0; i < 20; ++i, elapsed.count(2)) {
    if (schedule(elapsed)) whole.push_back(elapsed.steps);
  }
  for (std::int64_t cut = 0; cut <= 20; ++cut) {
    parts.clear();
    Schedule first = every({.samples = 5}), second = every({.samples = 5});
    elapsed = {};
    for (int i = 0; i < 20; ++i, elapsed.count(2)) {
      if ((i < cut ? first : second)(elapsed)) parts.push_back(elapsed.steps);
    }
    EXPECT_EQ(parts, whole) << "cut at " << cut;
  }
}

// With two boundaries of one kind in the wrong order, the schedule would never wait for the second.
TEST(Schedule, PiecewiseRejectsUnorderedBoundaries) {
  const auto refused = [](const Period& first, const Period& second, const char* text) {
    expect_invalid({"piecewise", "increasing", text}, [&] {
      piecewise(never(), {{first, always()}, {second, never()}});
    });
  };
  refused(at(10), at(5), "at(5) after at(10)");
  refused(at(5), at(5), "at(5) after at(5)");
  refused(at({.samples = 10}), at({.steps = 1, .samples = 10}), "after at({.samples = 10})");
  refused(at({.time = 2.0}), at({.time = 1.5}), "at({.time = 1.5})");
  refused(at({.date = 2e9}), at({.date = 1e9}), "{.date = 1000000000}");
  // Also for boundaries that are not neighbours.
  expect_invalid({"piecewise", "at(5) after at(10)"}, [] {
    piecewise(never(), {{at(10), always()}, {at({.samples = 3}), always()}, {at(5), never()}});
  });
}

// The second boundary is reached at step 2, before the first at step 6. It waits for the first, and its schedule counts
// from there.
TEST(Schedule, PiecewiseGoesThroughBoundariesInTurn) {
  EXPECT_EQ(due_steps(piecewise(every(2), {{at(6), always()}, {at({.samples = 4}), every(3)}}), 13, 2),
            (Steps{0, 2, 4, 6, 9, 12}));
  EXPECT_EQ(due_steps(piecewise(never(), {{at({.samples = 12}), never()}, {at(3), every(4)}}), 16, 2),
            (Steps{6, 10, 14}));
  EXPECT_EQ(due_steps(piecewise(never(), {{at(5), every({.samples = 4})}, {at({.samples = 13}), always()}}), 10, 2),
            (Steps{7, 8, 9}));
  // Its samples count from 12, where it took over, not from the 4 of its boundary.
  EXPECT_EQ(due_steps(piecewise(never(), {{at(6), never()}, {at({.samples = 4}), every({.samples = 5})}}), 13, 2),
            (Steps{9, 11}));
}

TEST(Schedule, EvaluatedAgainInTheSameStep) {
  for (Schedule schedule : {every({.samples = 10}), every({.time = 10.0}), after({.samples = 10}).every(7),
                            Schedule([calls = 0](const Elapsed&) mutable { return ++calls == 2; })}) {
    const Elapsed before{.steps = 4, .samples = 9, .date = 1'009, .date_start = 1'000, .previous_date = 1'009};
    Elapsed elapsed = before;
    EXPECT_FALSE(schedule(elapsed)) << to_string(schedule);
    elapsed.count(1);
    elapsed.date = 1'010;
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(schedule(elapsed)) << to_string(schedule);
    elapsed.count(1);
    for (int i = 0; i < 3; ++i) EXPECT_FALSE(schedule(elapsed)) << to_string(schedule);
  }
}

// The clock may be read between two questions in the same step. The schedule must not forget its samples then.
TEST(Schedule, SamplesEvaluatedAgainAtAnotherTime) {
  Schedule schedule = every({.samples = 10});
  EXPECT_TRUE(schedule({.steps = 1, .samples = 10, .date = 1}));
  EXPECT_TRUE(schedule({.steps = 1, .samples = 10, .date = 2}));
}

TEST(Schedule, LastMayBecomeKnownDuringTheStep) {
  Schedule both = every({.samples = 10}) & last();
  Elapsed elapsed{.steps = 1, .samples = 10};
  EXPECT_FALSE(both(elapsed));
  elapsed.last = true;
  EXPECT_TRUE(both(elapsed));
  Schedule neither = every({.samples = 10}) & last();
  EXPECT_FALSE(neither({.steps = 1, .samples = 9}));
  EXPECT_FALSE(neither({.steps = 1, .samples = 9, .last = true}));
}

TEST(Schedule, AwaitsTheEndIfItMayBeDueThen) {
  EXPECT_TRUE((every(3) | last()).traits().awaits_end);
  EXPECT_FALSE((!last()).traits().awaits_end);
  EXPECT_TRUE((!!last()).traits().awaits_end);
  EXPECT_TRUE((!(every(3) & !last())).traits().awaits_end);
  EXPECT_FALSE(every(3).traits().awaits_end);
}

TEST(Schedule, Last) {
  EXPECT_EQ(due_steps(last(), 5), Steps{});
  EXPECT_TRUE(last()({.steps = 5, .last = true}));
  EXPECT_TRUE((every(3) | last())({.steps = 5, .last = true}));
  EXPECT_TRUE(after(3).then(last())({.steps = 5, .last = true}));
}

TEST(Schedule, BothSidesAreAlwaysEvaluated) {
  int asked = 0;
  Schedule schedule = (never() & [&](const Elapsed&) { return ++asked > 0; });
  schedule = schedule & Schedule([&](const Elapsed&) { return ++asked > 0; });
  schedule({});
  EXPECT_EQ(asked, 2);
  // The samples of the right side are noticed while the left is not due.
  EXPECT_EQ(due_steps(every(4) & every({.samples = 3}), 13, 2), (Steps{8, 12}));
}

TEST(Schedule, Next) {
  const auto next = [](Schedule schedule, const Elapsed& elapsed) {
    schedule(elapsed);
    return to_string(schedule.next(elapsed));
  };
  EXPECT_EQ(next(every(5), {}), "5");
  EXPECT_EQ(next(every(5), {.steps = 4}), "5");
  EXPECT_EQ(next(every(5), {.steps = 5}), "10");
  EXPECT_EQ(next(every({.steps = 5, .samples = 100}), {.steps = 3, .samples = 250}), "{.steps = 5, .samples = 300}");
  EXPECT_EQ(next(every({.time = 2.0}), {.date = 1003, .date_start = 1000}), "{.time = 4}");
  EXPECT_EQ(next(always(), {.steps = 7}), "8");
  EXPECT_EQ(next(never(), {.steps = 7}), "{}");
  EXPECT_EQ(next(last(), {.steps = 7}), "{}");
  EXPECT_EQ(next(after(9), {.steps = 7}), "9");
  EXPECT_EQ(next(after(3).every(5), {.steps = 4}), "8");
  EXPECT_EQ(next(every(4) & every(6), {}), "6");
  EXPECT_EQ(next(every(4) | every(6), {}), "4");
  EXPECT_EQ(next(never() & every(6), {}), "{}");
  EXPECT_EQ(next([](const Elapsed&) { return false; }, {.steps = 7}), "8");
  EXPECT_EQ(next(piecewise(every(10), {{at(5), every(3)}}), {.steps = 1}), "5");
}

TEST(Schedule, PrintsAsWritten) {
  EXPECT_EQ(to_string(every(5)), "every(5)");
  EXPECT_EQ(to_string(every({.samples = 60'000, .time = 1.5})), "every({.samples = 60000, .time = 1.5})");
  EXPECT_EQ(to_string((every(2) & !after(3)) | last()), "((every(2) & !after(3)) | last())");
  EXPECT_EQ(to_string(after(3).every(5)), "after(3).then(every(5))");
  EXPECT_EQ(to_string(piecewise(every(2), {{at(5), never()}})), "piecewise(every(2), {at(5): never()})");
}

TEST(Schedule, EmptyPeriods) {
  expect_invalid({"after", "empty"}, [] { after(Period{}); });
  expect_invalid({"piecewise", "empty"}, [] { piecewise(never(), {{Period{}, always()}}); });
}

}  // namespace
}  // namespace giro
