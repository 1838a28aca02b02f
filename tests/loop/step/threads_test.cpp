// What loops in several threads may share.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include <giro/kernels/nn/functional.h>
#include <giro/kernels/optim/train_state.h>
#include <giro/loop/data/dataset.h>
#include <giro/loop/loop.h>

#include "tests/kernels/nn/models.h"
#include "tests/kernels/op_test.h"
#include "tests/support/training.h"

namespace giro {
namespace {

using Values = std::vector<double>;

class ThreadsTest : public test::OpTest {
 protected:
  static constexpr std::int64_t kSteps = 60;
  static constexpr std::size_t kThreads = 2;

  static auto make_step(const nn::Layer& model = test::linear_model()) {
    return jit(test::training([model](const nn::Params& params, const Batch& batch) {
      return mean(softmax_cross_entropy(model(params, batch["image"]), batch["label"]));
    }));
  }
  TrainState create(std::uint64_t seed, const nn::Layer& model = test::linear_model()) const {
    return TrainState::create(model, optim::adamw(1e-3),
                              {.inputs = {{"image", DType::u8, {5, 8, 8, 1}}}, .seed = seed, .context = device()});
  }
  template <class Step>
  Values train(const Dataset& dataset, const Step& step, std::uint64_t seed) const {
    const auto result = loop(create(seed), dataset, {{every(1), step}}, {.stop = at(kSteps)});
    return result.history.collect("loss")[0];
  }
  static Dataset rows() { return test::image_dataset(70, 8).shuffle(3).repeat().batch(5); }

  // One loop per thread, each with its own seed; `run` returns its losses.
  template <class F>
  static std::vector<Values> in_threads(const F& run) {
    std::vector<Values> found(kThreads);
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] { found[i] = run(i); });
    }
    threads.clear();  // joins them
    return found;
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, ThreadsTest, test::kDevices, test::device_name);

TEST_P(ThreadsTest, CopiesOfOneDataset) {
  for (const Dataset& dataset : {rows(), rows().to(device())}) {
    std::vector<Values> expected;
    for (std::size_t i = 0; i < kThreads; ++i) expected.push_back(train(dataset, make_step(), i));
    EXPECT_EQ(in_threads([&](std::size_t i) {
                const Dataset copy = dataset;
                return train(copy, make_step(), i);
              }),
              expected);
  }
}

TEST_P(ThreadsTest, OneStep) {
  const Dataset dataset = rows().to(device());
  std::vector<Values> expected;
  for (std::size_t i = 0; i < kThreads; ++i) expected.push_back(train(dataset, make_step(), i));
  const auto step = make_step();
  EXPECT_EQ(in_threads([&](std::size_t i) { return train(dataset, step, i); }), expected);
  EXPECT_LE(step.num_recordings(), kThreads);  // unused recordings are dropped when another is made
}

// Recordings of the same shapes by one thread use the same primitives of a library. Several threads replay them at the
// same time.
TEST_P(ThreadsTest, RecordingsOfOneThread) {
  const nn::Layer model = test::cnn_model();
  const Dataset dataset = rows().to(device());
  const auto train_on = [&](TrainState& state, const auto& step, std::int64_t steps) {
    Values losses;
    auto batch = dataset.begin();
    for (std::int64_t i = 0; i < steps; ++i, ++batch) losses.push_back(step(state, *batch).entry_value("loss"));
    return losses;
  };
  std::vector<TrainState> states, alone;
  std::vector<decltype(make_step(model))> steps;
  std::vector<Values> expected;
  for (std::size_t i = 0; i < kThreads; ++i) {
    for (auto* each : {&states, &alone}) each->push_back(create(i, model));
    steps.push_back(make_step(model));
    train_on(states[i], steps[i], 1);
    train_on(alone[i], make_step(model), 1);
    expected.push_back(train_on(alone[i], make_step(model), 8));
  }
  EXPECT_EQ(in_threads([&](std::size_t i) { return train_on(states[i], steps[i], 8); }), expected);
}

}  // namespace
}  // namespace giro
