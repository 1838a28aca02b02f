// Random schedules and tasks. The outcome is the same as step by step, whenever the loop asks the schedules, however
// many steps the device runs alone, and wherever a run is cut.

#include <giro/loop/loop.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <ranges>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <giro/kernels/nn/functional.h>
#include <giro/kernels/optim/train_state.h>
#include <giro/loop/data/dataset.h>

#include "tests/kernels/nn/models.h"
#include "tests/kernels/op_test.h"
#include "tests/loop/time/random_schedule.h"
#include "tests/support/sanitized.h"
#include "tests/support/training.h"

namespace giro {
namespace {

using Draw = test::RandomSchedule;

std::int64_t size_of_batch(const int& i) { return i * 7 % 5 + 1; }

using Calls = std::vector<std::pair<int, std::int64_t>>;  // task, step

// How a run is cut.
enum class Cut { stop, stop_iteration, exception, observer, interrupt };

class CutTest : public testing::TestWithParam<Cut> {};

TEST_P(CutTest, NoCallIsMissedOrRepeated) {
  constexpr int kSteps = 120, kTasks = 5;
  for (unsigned seed = 0; seed < test::cases(300); ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed, {.resumable = true, .tokens = true});
    const int cut = 1 + draw.below(kSteps - 2);
    // A throwing task comes first, so that nothing of its step has been done; a stopping task comes last, so that it
    // skips nothing.
    const int position = GetParam() == Cut::exception        ? 0
                         : GetParam() == Cut::stop_iteration ? kTasks
                                                             : draw.below(kTasks + 1);
    Calls barriers, observers;
    bool cuts = false;

    std::vector<Task<int, int>> tasks;
    for (int task = 0; task < kTasks; ++task) {
      if (draw.below(2) == 0) {
        tasks.emplace_back(draw.schedule(2),
                           [&observers, task](const Elapsed& e) { observers.emplace_back(task, e.steps); });
      } else {
        tasks.emplace_back(draw.schedule(2), [&barriers, task](int& state, const int& batch, const Elapsed& e) {
          EXPECT_EQ(batch, e.steps);
          barriers.emplace_back(task, e.steps);
          return logs().add_metric("calls", ++state);
        });
      }
    }
    const auto observe = [&](const Elapsed& elapsed) {
      if (elapsed.steps == cut - 1 && std::exchange(cuts, false)) throw std::runtime_error("cut");
    };
    const auto look = [&](LoopState<int, int>& loop) {
      if (!cuts || loop.elapsed.steps != cut - (GetParam() == Cut::exception ? 0 : 1)) return;
      cuts = false;
      if (GetParam() == Cut::exception) throw std::runtime_error("cut");
      if (GetParam() == Cut::interrupt) std::raise(SIGINT);
      if (GetParam() == Cut::stop_iteration) loop.stop_iteration = true;
    };
    using Callback = Callback<int, int>;
    tasks.emplace(tasks.begin() + position, every(1), GetParam() == Cut::observer ? Callback(observe) : Callback(look));
    const auto run = [&](int state, int first, int stop, const Elapsed& elapsed, History history) {
      return loop(state, std::views::iota(first, kSteps), tasks,
                  {.stop = at(stop),
                   .elapsed = elapsed,
                   .history = std::move(history),
                   .batch_size_fn = size_of_batch,
                   .tokens_per_sample = 3});
    };

    const auto whole = run(0, 0, kSteps, {}, {});
    const Calls expected_barriers = std::exchange(barriers, {}), expected_observers = std::exchange(observers, {});

    cuts = GetParam() != Cut::stop;
    int state = 0;
    History history;
    Elapsed elapsed;
    try {
      auto first = run(0, 0, GetParam() == Cut::stop ? cut : kSteps, {}, {});
      ASSERT_FALSE(GetParam() == Cut::exception || GetParam() == Cut::observer);
      EXPECT_EQ(first.interrupted, GetParam() == Cut::interrupt ? SIGINT : 0);
      std::tie(state, history, elapsed) = std::tie(first.state, first.history, first.elapsed);
    } catch (const LoopError& error) {
      ASSERT_TRUE(GetParam() == Cut::exception || GetParam() == Cut::observer) << error.what();
      std::tie(state, history, elapsed) = std::tie(*error.state<int>(), error.history(), error.elapsed());
    }
    ASSERT_EQ(elapsed.steps, cut);
    const auto rest = run(state, static_cast<int>(elapsed.steps), kSteps, elapsed, std::move(history));
    EXPECT_EQ(barriers, expected_barriers);
    EXPECT_EQ(observers, expected_observers);
    EXPECT_EQ(rest.state, whole.state);
    EXPECT_EQ(rest.elapsed.steps, kSteps);
    EXPECT_EQ(rest.elapsed.samples, whole.elapsed.samples);
    if (whole.history.size() > 0) {
      EXPECT_EQ(rest.history.collect("steps", "calls"), whole.history.collect("steps", "calls"));
    }
  }
}

std::string cut_name(const testing::TestParamInfo<Cut>& info) {
  constexpr const char* kNames[] = {"stop", "stop_iteration", "exception", "observer", "interrupt"};
  return kNames[static_cast<int>(info.param)];
}
INSTANTIATE_TEST_SUITE_P(Cuts, CutTest,
                         testing::Values(Cut::stop, Cut::stop_iteration, Cut::exception, Cut::observer, Cut::interrupt),
                         cut_name);

// However a run is cut into advances, the calls, state, history and outputs are the same as in one piece.
TEST(RunProperty, AdvancingInPiecesChangesNothing) {
  constexpr int kSteps = 60, kTasks = 5;
  for (unsigned seed = 0; seed < test::cases(1'000); ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed, {.last = true, .tokens = true});
    Calls calls;
    std::vector<Task<int, int>> tasks;
    for (int task = 0; task < kTasks; ++task) {
      const Schedule schedule = draw.schedule(2);
      switch (draw.below(3)) {
        case 0:
          tasks.emplace_back(schedule, [&calls, task](const Elapsed& e) { calls.emplace_back(task, e.steps); });
          break;
        case 1:
          tasks.emplace_back(schedule, [task](int& state, const int& batch) {
            state = (state * 31 + batch + task) % 1'000'003;
            return logs().add_metric("state", state).add_output("task", task);
          });
          break;
        default:
          tasks.emplace_back(schedule, [&calls, task](LoopState<int, int>& loop) {
            calls.emplace_back(task + 100, loop.elapsed.samples + static_cast<std::int64_t>(loop.history.size()));
          });
      }
    }
    const int stop_at = draw.below(2) == 0 ? kSteps - draw.below(20) : 10 * kSteps;
    if (draw.below(4) == 0) {
      tasks.emplace_back(every(1), [n = draw.below(kSteps)](LoopState<int, int>& loop) {
        if (loop.elapsed.steps == n) loop.stop_iteration = true;
      });
    }
    auto data = std::views::iota(0, kSteps);
    const LoopOptions<int, int> options{.stop = at(stop_at), .batch_size_fn = size_of_batch, .tokens_per_sample = 3};
    const auto whole = loop(0, data, tasks, options);
    const Calls expected = std::exchange(calls, {});

    giro::Run run(0, data, tasks, options);
    for (StopReason why = StopReason::reached; why == StopReason::reached;) {
      const std::int64_t further = draw.below(15);
      const Period aims[] = {at(run.elapsed().steps + further), at({.samples = run.elapsed().samples + 3 * further}),
                             at({.tokens = run.elapsed().tokens() + 8 * further})};
      why = run.advance(aims[draw.below(3)]);
      EXPECT_GE(run.history().size() + 1, run.outputs().size());
    }
    const auto found = run.finish();
    ASSERT_EQ(calls, expected);
    ASSERT_EQ(found.state, whole.state);
    ASSERT_EQ(found.elapsed.steps, whole.elapsed.steps);
    ASSERT_EQ(found.elapsed.samples, whole.elapsed.samples);
    ASSERT_EQ(found.history.size(), whole.history.size());
    ASSERT_EQ(found.outputs.size(), whole.outputs.size());
    if (whole.outputs.size() > 0) {
      ASSERT_EQ(found.history.collect("steps", "samples", "state"), whole.history.collect("steps", "samples", "state"));
      ASSERT_EQ(found.history.collect("steps", "task"), whole.history.collect("steps", "task"));
    }
  }
}

class DeviceLoopTest : public test::OpTest {
 protected:
  // The observable effects of a run, and its results.
  struct Outcome {
    std::vector<std::tuple<int, std::int64_t, double>> observed;                 // task, step, loss
    std::vector<std::tuple<int, std::int64_t, std::vector<std::uint8_t>>> seen;  // task, step, the state's bytes
    std::vector<std::vector<double>> history;                                    // steps, loss
    std::vector<std::uint8_t> state;
  };

  static std::vector<std::uint8_t> bytes_of(const State& state) {
    std::vector<std::uint8_t> all;
    for (const Leaf& leaf : state.flatten()) {
      std::vector<std::uint8_t> bytes(leaf.value.bytes());
      state.stream().copy(bytes.data(), leaf.value.raw(), bytes.size());
      state.stream().synchronize();
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
    return all;
  }
  static double loss_of(const Logs& logs) {
    for (const Logs::Entry& entry : logs.entries()) {
      if (entry.name == "loss") return entry.value.value();
    }
    return -1;
  }
};

TEST_P(DeviceLoopTest, RunningAheadChangesNothing) {
  constexpr std::int64_t kSteps = 150;
  const nn::Layer model = test::linear_model();
  const Dataset dataset = test::image_dataset(70, 4).shuffle(3).repeat().batch(3).to(device());
  const auto train_step = jit(test::training([&](const nn::Params& params, const Batch& batch) {
    return mean(softmax_cross_entropy(model(params, batch["image"]), batch["label"]));
  }));

  for (unsigned seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed, {.last = true});
    struct Mixed {
      enum { step, observer, barrier } kind;
      Schedule schedule;
    };
    std::vector<Mixed> mix{{Mixed::step, draw.below(3) == 0 ? draw.schedule(1) : every(1)}};
    for (int i = 0; i < 4; ++i) {
      const auto kind = draw.below(2) == 0 ? Mixed::observer : Mixed::barrier;
      mix.push_back({kind, draw.schedule(2)});
    }
    std::swap(mix[0], mix[static_cast<std::size_t>(draw.below(5))]);
    const auto create = [&] {
      return TrainState::create(model, optim::adamw(1e-3),
                                {.inputs = dataset.spec(), .seed = seed, .context = device()});
    };

    // Step by step, by hand.
    Outcome expected;
    {
      TrainState state = create();
      std::vector<Mixed> asked = mix;
      History history;
      Elapsed elapsed;
      auto batch = dataset.begin();
      for (; elapsed.steps < kSteps; elapsed.count(3), ++batch) {
        elapsed.last = elapsed.steps + 1 == kSteps;
        elapsed.step_samples = 3;
        Logs logs;
        std::vector<int> observers;
        for (int task = 0; task < 5; ++task) {
          Mixed& one = asked[static_cast<std::size_t>(task)];
          if (!one.schedule(elapsed)) continue;
          if (one.kind == Mixed::step) logs.merge(train_step(state, *batch));
          if (one.kind == Mixed::observer) observers.push_back(task);
          if (one.kind == Mixed::barrier) expected.seen.emplace_back(task, elapsed.steps, bytes_of(state));
        }
        if (!logs.empty()) history.commit(elapsed, logs);
        for (const int task : observers) expected.observed.emplace_back(task, elapsed.steps, loss_of(logs));
      }
      expected.state = bytes_of(state);
      const auto columns = history.collect("steps", "loss");
      expected.history.assign(columns.begin(), columns.end());
    }
    ASSERT_GT(expected.history[0].size(), 0u);

    for (const std::int64_t steps_per_execution : {1, 7, 128, 0}) {
      SCOPED_TRACE(steps_per_execution);
      Outcome found;
      std::vector<Task<TrainState, Batch>> tasks;
      for (int task = 0; task < 5; ++task) {
        const Mixed& one = mix[static_cast<std::size_t>(task)];
        if (one.kind == Mixed::step) tasks.emplace_back(one.schedule, train_step);
        if (one.kind == Mixed::observer) {
          tasks.emplace_back(one.schedule, [&found, task](const Elapsed& e, const Logs& logs) {
            found.observed.emplace_back(task, e.steps, loss_of(logs));
          });
        }
        if (one.kind == Mixed::barrier) {
          tasks.emplace_back(one.schedule, [&found, task](const Elapsed& e, const TrainState& state) {
            found.seen.emplace_back(task, e.steps, bytes_of(state));
          });
        }
      }
      const auto result =
          loop(create(), dataset, tasks, {.stop = at(kSteps), .steps_per_execution = steps_per_execution});
      found.state = bytes_of(result.state);
      const auto columns = result.history.collect("steps", "loss");
      found.history.assign(columns.begin(), columns.end());
      // EXPECT_EQ would print whole states.
      EXPECT_TRUE(found.seen == expected.seen);
      EXPECT_TRUE(found.state == expected.state);
      EXPECT_EQ(found.observed, expected.observed);
      EXPECT_EQ(found.history, expected.history);
    }
  }
}

// The same for a state on a device, with steps that run ahead.
TEST_P(DeviceLoopTest, AdvancingInPiecesChangesNothing) {
  const std::int64_t steps = 40;
  const nn::Layer model = test::linear_model();
  const Dataset rows = test::image_dataset(70, 4).shuffle(3).repeat().batch(3);
  const Dataset resident = rows.to(device());
  const auto body = [&](TrainState& state, const Batch& batch) {
    const nn::Var loss = state.value_and_grad(
        [&](auto& params) { return mean(softmax_cross_entropy(model(params, batch["image"]), batch["label"])); });
    state.apply_gradients();
    return loss;
  };
  const auto train =
      jit([&](TrainState& state, const Batch& batch) { return logs().add_metric("loss", body(state, batch)); });
  const auto predict = jit([&](const TrainState& state, const Batch& batch, const Broadcasts& values) {
    return logs().add_output("logits", model(state.params(), batch["image"])).add_metric("at", values["samples"]);
  });
  const TrainState start = TrainState::create(model, optim::adamw(1e-3), {.inputs = rows.spec(), .context = device()});
  TrainState state = TrainState::create(model, optim::adamw(1e-3), {.inputs = rows.spec(), .context = device()});

  const unsigned loops = device().is_cpu() ? test::cases(1'000) : 10;
  for (unsigned seed = 0; seed < loops; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed, {.last = true});
    std::vector<std::pair<std::int64_t, double>> observed;
    std::vector<std::vector<std::uint8_t>> seen;
    std::vector<Task<TrainState, Batch>> tasks;
    tasks.emplace_back(draw.below(2) == 0 ? every(1) : draw.schedule(1), train);
    tasks.emplace_back(draw.schedule(1), predict);
    tasks.emplace_back(draw.schedule(1),
                       [&](const Elapsed& e, const Logs& l) { observed.emplace_back(e.steps, loss_of(l)); });
    tasks.emplace_back(draw.schedule(1), [&](const TrainState& s) { seen.push_back(bytes_of(s)); });
    std::swap(tasks[static_cast<std::size_t>(draw.below(4))], tasks[3]);
    const LoopOptions<TrainState, Batch> options{.stop = at(steps), .steps_per_execution = draw.below(3) * 5};
    const Dataset& dataset = draw.below(2) == 0 ? rows : resident;

    const auto outcome = [&](LoopResult<TrainState> result) {
      Outcome found;
      found.state = bytes_of(result.state);
      for (const auto& [elapsed, logs] : result.history) found.history.push_back({static_cast<double>(elapsed.steps)});
      for (const auto& record : result.outputs) {
        const Tensor logits = record.logs.values()[0].array()->tensor();
        found.seen.emplace_back(0, record.elapsed.steps, std::vector<std::uint8_t>(logits.bytes()));
        std::memcpy(std::get<2>(found.seen.back()).data(), logits.raw(), logits.bytes());
      }
      state = std::move(result.state);
      return found;
    };
    state.assign(start);
    const Outcome whole = outcome(loop(std::move(state), dataset, tasks, options));
    const auto expected_observed = std::exchange(observed, {});
    const auto expected_seen = std::exchange(seen, {});

    state.assign(start);
    giro::Run run(std::move(state), dataset, tasks, options);
    while (run.advance(at(run.elapsed().steps + draw.below(15))) == StopReason::reached) continue;
    const Outcome found = outcome(run.finish());
    ASSERT_TRUE(found.state == whole.state);
    ASSERT_TRUE(found.seen == whole.seen);
    ASSERT_EQ(found.history, whole.history);
    ASSERT_EQ(observed, expected_observed);
    ASSERT_TRUE(seen == expected_seen);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceLoopTest, test::kDevices, test::device_name);

}  // namespace
}  // namespace giro
