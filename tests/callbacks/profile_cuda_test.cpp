// A profile of a loop with steps on a GPU.

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include <giro/callbacks/profile.h>
#include <giro/kernels/nn/functional.h>
#include <giro/loop/data/dataset.h>
#include <giro/loop/loop.h>
#include <giro/loop/step/step.h>
#include <giro/runtime/device.h>
#include <giro/runtime/state.h>

#include "tests/kernels/nn/models.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/tensor_ops.h"
#include "tests/support/trace_file.h"

namespace giro {
namespace {

// An emulated GPU counts its calls; otherwise 0.
std::uint64_t calls(const char* name) {
  const auto count = reinterpret_cast<unsigned long long (*)(const char*)>(dlsym(RTLD_DEFAULT, "cuda_on_cpu_calls"));
  return count == nullptr ? 0 : count(name);
}

TEST(ProfileCuda, RecordsDeviceTimesAndNotifiesTheProfiler) {
  const Discovery discovery = discover_devices();
  if (discovery.best().is_cpu()) GTEST_SKIP() << "no CUDA device: " << discovery.no_cuda_reason;
  const test::TemporaryDirectory dir;
  const std::uint64_t started = calls("cudaProfilerStart"), stopped = calls("cudaProfilerStop");
  State state(discovery.best());
  state.add("sum", {{"", DType::f32, {}}});
  const auto step = jit([](State& state, const Batch& batch) {
    add(state.at("sum"), state.at("sum"), mean(nn::scale(batch["image"], 1.0f)).value(), state.stream());
    return logs().add_metric("sum", nn::Var(state.at("sum"), state.stream()));
  });
  const auto profile =
      giro::profile({.num_profile_steps = 20, .profile_duration_ms = 0, .first_profile = 0, .logdir = dir.path()});
  (void)loop(std::move(state), test::image_dataset(70, 4).repeat().batch(2), {{every(1), {step, profile}}},
             {.stop = at(20), .steps_per_execution = 4});

  const test::TraceFile file(dir.path() + "/trace_0.json");
  std::vector<std::int64_t> queued, run;
  std::int64_t steps = 0;
  for (const auto& span : file.spans) {
    if (span.name == "replay") queued.push_back(span.args.at("times"));
    if (span.category == "device") {
      run.push_back(span.args.at("times"));
      EXPECT_EQ(span.track, "cuda:0, stream 1");
      EXPECT_GT(span.end, span.begin);
    }
    if (span.category == "launch" && span.name == "launch") steps += span.args.at("steps");
  }
  EXPECT_EQ(queued, (std::vector<std::int64_t>(5, 4)));
  EXPECT_EQ(run, queued);
  EXPECT_EQ(steps, 20);
  EXPECT_FALSE(file.named("wait for the stream").empty());
  if (calls("cudaGraphLaunch") > 0) {
    EXPECT_EQ(calls("cudaProfilerStart") - started, 1u);
    EXPECT_EQ(calls("cudaProfilerStop") - stopped, 1u);
  }
}

}  // namespace
}  // namespace giro
