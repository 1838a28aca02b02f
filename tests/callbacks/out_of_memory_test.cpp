// Resuming a run when memory runs out: it fails with an error, nothing leaks, and a second try succeeds.
#include <gtest/gtest.h>

#include <cstdint>
#include <utility>

#include <giro/callbacks/checkpoint.h>
#include <giro/callbacks/resume.h>
#include <giro/loop/loop.h>

#include "tests/kernels/nn/models.h"
#include "tests/support/failing_allocations.h"
#include "tests/support/temporary_directory.h"

namespace giro {
namespace {

// Enough steps that reading them allocates more than kMinBytes.
constexpr std::int64_t kCut = 60, kSteps = 70;

// Resumes a run that saved after kCut steps.
struct Resumed {
  Resumed() { run(kCut); }

  test::TemporaryDirectory dir;
  std::int64_t steps = 0, records = 0;
  float sum = 0;

  void call() { run(kSteps); }
  void check_failed() {
    const LoadedCheckpoint loaded = load_checkpoint(dir / "model");
    EXPECT_GE(loaded.record.steps, kCut);
    EXPECT_TRUE(loaded.skipped.empty());
    EXPECT_EQ(steps, kCut);
  }
  void check_done() {
    EXPECT_EQ(steps, kSteps);
    EXPECT_EQ(records, kSteps);
    EXPECT_EQ(sum, static_cast<float>(kSteps));
  }

  void run(std::int64_t stop) {
    State state(Device::cpu());
    state.add("params", {{"kernel", DType::f32, {2'000}}});
    const auto step = [](State& state) {
      float* const kernel = state.at("params/kernel").data<float>();
      kernel[0] += 1;
      return logs().add_metric("sum", kernel[0]);
    };
    auto result = loop(std::move(state), test::image_dataset(70, 4).shuffle(3).repeat().batch(3),
                       {{every(1), step}, {last(), checkpoint(dir / "model")}},
                       {.stop = at(stop), .on_start = {resume(dir / "model")}});
    steps = result.elapsed.steps;
    records = static_cast<std::int64_t>(result.history.size());
    sum = result.state.at("params/kernel").data<float>()[0];
  }
};

TEST(OutOfMemory, ResumedRun) { test::fail_each_allocation<Resumed>(); }

}  // namespace
}  // namespace giro
