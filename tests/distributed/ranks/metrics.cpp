#include <giro/giro.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/distributed/ranks/ranks.h"
#include "tests/distributed/ranks/small_model.h"

namespace giro::test {
namespace {

// Batches of 12; the last one is smaller, and has no rows for the last ranks. A third of the rows does not count.
TEST(Metrics, CoverAllRowsOnAnyNumberOfRanks) {
  constexpr std::int64_t kRowsHere = 97, kBatch = 12;
  std::vector<float> x;
  std::vector<std::uint8_t> mask;
  double sum = 0, squares = 0, count = 0, plain = 0;
  for (std::int64_t i = 0; i < kRowsHere; ++i) {
    const auto value = static_cast<float>(i * i % 23);
    x.push_back(i % 3 == 0 ? NAN : value);
    mask.push_back(i % 3 != 0);
    plain += i % 3 != 0;
    if (i % 3 == 0) continue;
    sum += value, squares += value * value, count += 1;
  }
  const auto partitioner = data_parallel(world(), test_device());
  const Dataset data = Dataset({{"x", x}, {"mask", mask}}).shuffle(1).batch(kBatch).partition(partitioner);
  TrainState state =
      TrainState::create(nn::dense(1), optim::sgd(0.1),
                         {.inputs = {{"x", DType::f32, {1, 1}}}, .context = test_device(), .partitioner = partitioner});
  const auto step = jit([](const TrainState&, const Batch& batch) {
    return logs()
        .add_metric("average", average(batch["x"], batch["mask"]))
        .add_metric("spread", standard_deviation(batch["x"], batch["mask"]))
        .add_metric("all", average(batch["mask"]))
        .add_metric("plain", mean(nn::scale(batch["mask"], 1)));
  });
  const auto result = test_loop(std::move(state), data, {.tasks = {{"test_step", step}}});
  EXPECT_EQ(result.elapsed.steps, 9);
  const Logs merged = aggregate(result.history, "mean");
  EXPECT_NEAR(merged.entry_value("average"), sum / count, 1e-13);
  EXPECT_NEAR(merged.entry_value("spread"), std::sqrt(squares / count - sum / count * (sum / count)), 1e-13);
  EXPECT_NEAR(merged.entry_value("all"), plain / kRowsHere, 1e-14);
  EXPECT_NEAR(merged.entry_value("plain"), plain / kRowsHere, 1e-6);  // f32
  double counts = 0;
  for (const double of_step : result.history.column("counts.metrics/all")) counts += of_step;
  EXPECT_NEAR(counts, kRowsHere, 1e-12);
}

}  // namespace
}  // namespace giro::test
