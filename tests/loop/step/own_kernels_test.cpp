// User-defined work inside a step, and computing with the features of a batch.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <giro/kernels/nn/call.h>
#include <giro/kernels/nn/functional.h>
#include <giro/kernels/nn/layers.h>
#include <giro/kernels/optim/train_state.h>
#include <giro/loop/data/dataset.h>
#include <giro/loop/loop.h>
#include <giro/loop/step/step.h>
#include <giro/runtime/program/native_stream.h>

#include "tests/kernels/op_test.h"
#include "tests/support/training.h"
#if GIRO_WITH_CUDA
#include "tests/loop/step/own_kernels.h"
#endif

namespace giro {
namespace {

using Inputs = std::vector<Tensor>;

void twice_abs_cuda([[maybe_unused]] const Tensor& y, [[maybe_unused]] const Inputs& in,
                    [[maybe_unused]] CUstream_st* stream) {
#if GIRO_WITH_CUDA
  test::twice_abs(y.data<float>(), in[0].data<float>(), y.count(), stream);
#endif
}
void twice_abs_dx_cuda([[maybe_unused]] const Tensor& dx, [[maybe_unused]] const Inputs& in,
                       [[maybe_unused]] CUstream_st* stream) {
#if GIRO_WITH_CUDA
  test::twice_abs_dx(dx.data<float>(), in[0].data<float>(), in[1].data<float>(), dx.count(), stream);
#endif
}
void twice_abs_cpu(const Tensor& y, const Inputs& in) {
  for (std::int64_t i = 0; i < y.count(); ++i) y.data<float>()[i] = 2 * std::abs(in[0].data<float>()[i]);
}
void twice_abs_dx_cpu(const Tensor& dx, const Inputs& in) {
  const float *dy = in[0].data<float>(), *x = in[1].data<float>();
  for (std::int64_t i = 0; i < dx.count(); ++i) dx.data<float>()[i] = x[i] < 0 ? -2 * dy[i] : 2 * dy[i];
}

nn::Var twice_abs(const nn::Var& x) {
  return nn::call("twice_abs", {.shape = x.shape()}, {x},
                  {.cuda = twice_abs_cuda, .cpu = twice_abs_cpu, .vjp = [](auto&, auto& dy, auto& in) {
                     return nn::call("twice_abs_dx", {.shape = dy.shape()}, {dy, in[0]},
                                     {.cuda = twice_abs_dx_cuda, .cpu = twice_abs_dx_cpu});
                   }});
}

class OwnKernelsTest : public test::OpTest {
 protected:
  static constexpr std::int64_t kRows = 50;

  static Dataset dataset() {
    struct Rows {
      std::vector<float> x, y;
    };
    const auto rows = std::make_shared<Rows>();
    for (int i = 0; i < kRows; ++i) {
      const float a = static_cast<float>(i * 7 % 50) / 25 - 1, b = static_cast<float>(i * 11 % 50) / 25 - 1;
      rows->x.insert(rows->x.end(), {a, b});
      rows->y.push_back(a - 0.5f * b + 0.25f);
    }
    return Dataset({{"x", Tensor(rows->x.data(), DType::f32, {kRows, 2}, Device::cpu())},
                    {"y", Tensor(rows->y.data(), DType::f32, {kRows, 1}, Device::cpu())}},
                   rows);
  }
  static nn::Layer model() { return nn::sequential(nn::dense(1)); }
  TrainState create() const {
    return TrainState::create(model(), optim::adam(0.05), {.inputs = dataset().batch(5).spec(), .context = device()});
  }

  // Final parameters and moments, and the losses, bit by bit.
  using Result = std::vector<std::vector<float>>;
  template <class S>
  Result train(const Dataset& data, const S& step, std::int64_t steps_per_execution) const {
    const auto result =
        loop(create(), data, {{every(1), step}}, {.stop = at(40), .steps_per_execution = steps_per_execution});
    Result bits;
    for (const Leaf& leaf : result.state.flatten()) {
      if (leaf.value.dtype() == DType::f32) bits.push_back(to_host<float>(leaf.value, result.state.stream()));
    }
    const auto [loss] = result.history.collect("loss");
    bits.emplace_back(loss.begin(), loss.end());
    return bits;
  }
};

TEST_P(OwnKernelsTest, UserOpTrainsTheSameRecordedAndEager) {
  const auto body = test::training([model = model()](const nn::Params& params, const Batch& batch) {
    return mean(twice_abs(model(params, batch["x"]) - batch["y"]));
  });
  const Dataset rows = dataset().shuffle(1).repeat().batch(5);
  std::optional<Result> first;
  for (const bool resident : {true, false}) {
    for (const std::int64_t steps_per_execution : {1, 7}) {
      for (const bool recorded : {true, false}) {
        const Dataset data = resident ? rows.to(device()) : rows;
        const Result result =
            recorded ? train(data, jit(body), steps_per_execution) : train(data, eager(body), steps_per_execution);
        if (!first) first = result;
        EXPECT_EQ(result, *first) << resident << recorded << steps_per_execution;
      }
    }
  }
  EXPECT_LT(first->back().back(), first->back().front() / 4);
}

// The raw ops and layers with the same names would not compile with these arguments, or would fail.
TEST_P(OwnKernelsTest, BatchFeaturesAreValues) {
  const auto body = [model = model()](const TrainState& state, const Batch& batch, const Broadcasts& broadcasts) {
    const nn::Var squared = mean(square(model(state.params(), batch["x"]) - batch["y"]));
    return logs().add_metrics({{"mean", mean(batch["x"])},
                               {"negative", sum(scale(batch["y"], -1))},
                               {"qualified", sum(nn::scale(batch["y"], -1))},
                               {"squared", squared},
                               {"factor", broadcasts["factor"] * 2 + 1}});
  };
  TrainState state = create();
  const Batch batch = *dataset().batch(5).begin();
  const float *x = batch["x"].data<float>(), *y = batch["y"].data<float>();
  const std::vector<float> kernel = to_host<float>(state.at("params/dense0/kernel"), state.stream());
  double mean_x = 0, sum_y = 0, squared = 0;
  for (int i = 0; i < 5; ++i) {
    mean_x += (x[2 * i] + x[2 * i + 1]) / 10;
    sum_y += y[i];
    squared += std::pow(x[2 * i] * kernel[0] + x[2 * i + 1] * kernel[1] - y[i], 2) / 5;
  }
  for (const auto& step : {jit(body), eager(body)}) {
    for (const double factor : {3.0, 4.0}) {
      const Logs logs = step(state, batch, {{"factor", factor}});
      EXPECT_NEAR(logs.entry_value("mean"), mean_x, 1e-6);
      EXPECT_NEAR(logs.entry_value("negative"), -sum_y, 1e-6);
      EXPECT_EQ(logs.entry_value("qualified"), logs.entry_value("negative"));
      EXPECT_NEAR(logs.entry_value("squared"), squared, 1e-6);
      EXPECT_EQ(logs.entry_value("factor"), 2 * factor + 1);
    }
  }
}

class CpuOwnKernelsTest : public OwnKernelsTest {};

TEST_P(CpuOwnKernelsTest, HostFunctionRunsInEachStep) {
  const Dataset data = dataset().repeat().batch(5).to(device());
  for (const std::int64_t steps_per_execution : {1, 7}) {
    std::vector<float> seen, expected;
    const auto step = jit([&](State& state, const Batch& batch) {
      submit(state.stream(), [&seen, y = batch["y"].value()] { seen.push_back(*y.data<float>()); });
      return Logs();
    });
    (void)loop(State(device()), data, {{every(1), step}}, {.stop = at(25), .steps_per_execution = steps_per_execution});
    for (int i = 0; i < 25; ++i) {
      const float a = static_cast<float>(i * 5 % 50 * 7 % 50) / 25 - 1,
                  b = static_cast<float>(i * 5 % 50 * 11 % 50) / 25 - 1;
      expected.push_back(a - 0.5f * b + 0.25f);
    }
    EXPECT_EQ(seen, expected);
    EXPECT_EQ(step.num_recordings(), 1u);
  }
}

TEST_P(CpuOwnKernelsTest, ReadingARecordedValueOnTheHostIsAnError) {
  TrainState state = create();
  const Batch batch = *dataset().batch(5).begin();
  float seen = 0;
  const auto reads = [&](TrainState&, const Batch& b) {
    seen = b["y"].data<float>()[0];
    return Logs();
  };
  const auto reads_computed = [&, model = model()](TrainState& s, const Batch& b) {
    seen = model(s.params(), b["x"]).value().data<float>()[0];
    return Logs();
  };
  for (const auto& step : {jit(reads), jit(reads_computed)}) {
    test::expect_invalid({"recorded", "nn::call", "submit"}, [&] { step(state, batch); });
  }
  eager(reads)(state, batch);
  EXPECT_EQ(seen, batch["y"].data<float>()[0]);
}

INSTANTIATE_TEST_SUITE_P(Devices, OwnKernelsTest, test::kDevices, test::device_name);
INSTANTIATE_TEST_SUITE_P(Devices, CpuOwnKernelsTest, ::testing::Values(Device::Kind::cpu), test::device_name);

}  // namespace
}  // namespace giro
