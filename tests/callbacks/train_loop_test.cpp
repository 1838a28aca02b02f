// Callbacks in a train loop's list `callbacks`: those that judge a whole epoch run at its end.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include <giro/callbacks/checkpoint.h>
#include <giro/callbacks/early_stopping.h>
#include <giro/loop/predefined_loops.h>

#include "tests/support/temporary_directory.h"

namespace giro {
namespace {

using Ints = std::vector<int>;

struct Counter {
  int updates = 0;
};

TEST(TrainLoopCallbacks, EarlyStoppingChecksEachEvaluation) {
  // Evaluated after 3, 6, 9, ... updates; the second loss is the best.
  const auto train_step = [](Counter& model) { ++model.updates; };
  const auto test_step = [](const Counter& model) {
    return logs().add_loss("loss", model.updates == 6 ? 1 : 2 + model.updates);
  };
  const auto result =
      train_loop(Counter(), Ints(100, 0),
                 {.tasks = {{"train_step", train_step}, {"test_step", test_step}},
                  .callbacks = {early_stopping("loss_test", {.patience = std::int64_t{2}, .restore_best = true})},
                  .test_dataset = Ints(1, 0),
                  .epoch_duration = at(3)});
  EXPECT_EQ(result.elapsed.steps, 12);
  EXPECT_EQ(result.state.updates, 6);
}

TEST(TrainLoopCallbacks, CheckpointsAreSavedAtEpochEnds) {
  const test::TemporaryDirectory directory;
  State state(Device::cpu());
  state.add("params", {{"a", DType::f32, {2}}});
  (void)train_loop(std::move(state), Ints(10, 0),
                   {.tasks = {{"train_step", [](State&) {}}},
                    .callbacks = {checkpoint(directory.path(), {.keep = 100})},
                    .epoch_duration = at(4)});
  std::vector<std::int64_t> steps;
  for (const auto& stored : CheckpointStore(directory.path()).all()) steps.push_back(stored.record.steps);
  EXPECT_EQ(steps, (std::vector<std::int64_t>{4, 8, 10}));
}

}  // namespace
}  // namespace giro
