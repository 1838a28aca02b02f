// Tests how far the host runs ahead of the device, by counting its calls to the CUDA runtime.

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <giro/kernels/nn/functional.h>
#include <giro/kernels/optim/train_state.h>
#include <giro/loop/data/dataset.h>
#include <giro/loop/loop.h>

#include "tests/cuda_on_cpu/runtime/injection.h"
#include "tests/kernels/nn/models.h"
#include "tests/support/tensor_ops.h"

namespace giro {
namespace {

constexpr std::int64_t kSteps = 1'000;

// Calls that wait for the device, and launches.
struct Calls {
  std::map<std::string, std::uint64_t> counts;

  static Calls now() {
    Calls calls;
    for (const char* name :
         {"cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize", "cudaMemcpy", "cudaGraphLaunch"}) {
      calls.counts[name] = cuda_on_cpu_calls(name);
    }
    return calls;
  }
  std::uint64_t launches() const { return counts.at("cudaGraphLaunch"); }
  std::uint64_t waits() const {
    std::uint64_t sum = 0;
    for (const auto& [name, count] : counts) sum += name == "cudaGraphLaunch" ? 0 : count;
    return sum;
  }
};

using Tasks = std::vector<Task<State, Batch>>;

class RunningAheadCuda : public testing::Test {
 protected:
  static State make_state() {
    State state(Device::cuda());
    state.add("sum", {{"", DType::f32, {}}});
    return state;
  }
  // Adds the weighted mean of a feature to the state's sum.
  static auto add_mean(double weight) {
    return jit([weight](State& state, const Batch& batch) {
      const nn::Var term = nn::scale(mean(nn::scale(batch["image"], static_cast<float>(weight))), 1.0f);
      add(state.at("sum"), state.at("sum"), term.value(), state.stream());
      return logs().add_metric("sum", nn::Var(state.at("sum"), state.stream()));
    });
  }
  struct Found {
    std::uint64_t launches, waits;
    std::vector<double> sums;
  };
  // Counts the calls of all steps after the first ten, by which everything has been created.
  template <class R>
  static Found run(R&& dataset, const Tasks& tasks, std::int64_t steps_per_execution) {
    giro::Run run(make_state(), dataset, tasks, {.stop = at(kSteps + 10), .steps_per_execution = steps_per_execution});
    EXPECT_EQ(run.advance(at(10)), StopReason::reached);
    const Calls before = Calls::now();
    EXPECT_EQ(run.advance(), StopReason::stopped);
    const Calls after = Calls::now();
    return {after.launches() - before.launches(), after.waits() - before.waits(), run.history().collect("sum")[0]};
  }
  static Dataset rows() { return test::image_dataset(70, 4).shuffle(3).repeat().batch(2); }

  // 1,000 steps are 7 launches of 128, and the other 104 are 64 + 32 + 8. The host is at most two launches ahead, and
  // waits once more at the end.
  static constexpr std::int64_t kAtOnce = 128;
  static constexpr std::uint64_t kLaunches = 7 + 3, kWaits = 8 - 2 + 1;
};

TEST_F(RunningAheadCuda, TwoStepsOnOneResidentDataset) {
  const Dataset dataset = rows().to(Device::cuda());
  const Found found = run(dataset, {{every(1), add_mean(1)}, {every(1), add_mean(0.5)}}, kAtOnce);
  EXPECT_LE(found.launches, kLaunches);
  EXPECT_LE(found.waits, kWaits);
  const Found one_by_one = run(dataset, {{every(1), add_mean(1)}, {every(1), add_mean(0.5)}}, 1);
  EXPECT_EQ(found.sums, one_by_one.sums);
}

// A step that is due every other time is also part of a sequence.
TEST_F(RunningAheadCuda, StepDueEveryOtherTime) {
  const Dataset dataset = rows().to(Device::cuda());
  const Tasks tasks{{every(1), add_mean(1)}, {every(2), add_mean(0.5)}};
  const Found found = run(dataset, tasks, kAtOnce);
  EXPECT_LE(found.launches, 2 * kLaunches);
  EXPECT_LE(found.waits, kWaits);
  EXPECT_EQ(found.sums, run(dataset, tasks, 1).sums);
}

TEST_F(RunningAheadCuda, BatchesFromTheHost) {
  const Found found = run(rows(), {{every(1), add_mean(1)}}, kAtOnce);
  EXPECT_LE(found.launches, kLaunches);
  EXPECT_LE(found.waits, kWaits);
  EXPECT_EQ(found.sums, run(rows().to(Device::cuda()), {{every(1), add_mean(1)}}, 1).sums);
}

TEST_F(RunningAheadCuda, Broadcasts) {
  const auto step = jit([](State& state, const Batch&, const Broadcasts& values) {
    add(state.at("sum"), state.at("sum"), cast(values["steps"], DType::f32).value(), state.stream());
    return logs().add_metric("sum", nn::Var(state.at("sum"), state.stream()));
  });
  const Found found = run(rows().to(Device::cuda()), {{every(1), step}}, kAtOnce);
  EXPECT_LE(found.launches, kLaunches);
  EXPECT_LE(found.waits, kWaits);
  double sum = 0;
  for (std::size_t i = 0; i < found.sums.size(); ++i) EXPECT_EQ(found.sums[i], sum += static_cast<double>(i));
}

TEST_F(RunningAheadCuda, ArraysAndManyScalars) {
  const auto step = jit([](State& state, const Batch&) {
    increment(state.at("count"), 1, state.stream());
    const nn::Var count(state.at("count"), state.stream());
    Logs many = logs().add_output("counts", nn::Var(state.at("counts"), state.stream()));
    for (int i = 0; i < 40; ++i) many.add_metric(std::to_string(i), count);
    return many.add_metric("sum", count);
  });
  State state(Device::cuda());
  state.add("count", {{"", DType::i64, {}}});
  state.add("counts", {{"", DType::f32, {7}}});
  const Dataset dataset = rows().to(Device::cuda());
  giro::Run run(std::move(state), dataset, Tasks{{every(1), step}},
                {.stop = at(kSteps + 10), .steps_per_execution = kAtOnce});
  EXPECT_EQ(run.advance(at(10)), StopReason::reached);
  const Calls before = Calls::now();
  EXPECT_EQ(run.advance(), StopReason::stopped);
  EXPECT_LE(Calls::now().launches() - before.launches(), kLaunches);
  EXPECT_LE(Calls::now().waits() - before.waits(), kWaits);
  EXPECT_EQ(run.outputs().size(), static_cast<std::size_t>(kSteps + 10));
  EXPECT_EQ(run.history().collect("39")[0].back(), kSteps + 10);
}

}  // namespace
}  // namespace giro
