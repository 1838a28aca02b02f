// Loops in several threads: what they may share.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include <giro/kernels/nn/functional.h>
#include <giro/kernels/nn/train_state.h>
#include <giro/loop/data/dataset.h>
#include <giro/loop/loop.h>

#include "tests/kernels/nn/models.h"
#include "tests/kernels/op_test.h"

namespace giro {
namespace {

using Values = std::vector<double>;

class ThreadsTest : public test::OpTest {
 protected:
  static constexpr std::int64_t kSteps = 60;
  static constexpr std::size_t kThreads = 2;

  static auto make_step() {
    return jit([model = test::linear_model()](TrainState& state, const Batch& batch) {
      const nn::Var loss = state.value_and_grad(
          [&](auto& params) { return mean(softmax_cross_entropy(model(params, batch["image"]), batch["label"])); });
      state.apply_gradients();
      return logs().add_metric("loss", loss);
    });
  }
  TrainState create(std::uint64_t seed) const {
    return TrainState::create(test::linear_model(), {{"image", DType::u8, {5, 8, 8, 1}}}, optim::adamw(1e-3), seed,
                              device());
  }
  template <class Step>
  Values train(const Dataset& dataset, const Step& step, std::uint64_t seed) const {
    const auto result = loop(create(seed), dataset, {{every(1), step}}, {.stop = at(kSteps)});
    return result.history.collect("loss")[0];
  }
  static Dataset rows() { return test::image_dataset(70, 8).shuffle(3).repeat().batch(5); }

  // A loop a thread, each with a seed of its own; `run` gives its losses.
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
  EXPECT_LE(step.num_recordings(), kThreads);  // one that is done with goes when another is made
}

}  // namespace
}  // namespace giro
