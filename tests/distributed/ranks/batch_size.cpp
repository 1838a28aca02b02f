#include <giro/giro.h>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "tests/distributed/ranks/ranks.h"
#include "tests/distributed/ranks/small_model.h"

namespace giro::test {
namespace {

// The last rank has room for a part of 48 samples, the others for more.
TEST(BatchSizeOfRanks, FitsEachRank) {
  const auto partitioner = data_parallel(world(), test_device());
  TrainState state = TrainState::create(
      model(), optim::adamw(1e-2),
      {.inputs = {{"x", DType::f32, {1, kFeatures}}}, .context = test_device(), .partitioner = partitioner});
  const auto step = make_step();
  const Dataset rows = random_rows();
  const auto memory_of = [&](std::int64_t n) {
    return step.memory(state, *rows.batch(n).partition(partitioner).begin()).bytes();
  };
  const std::size_t room = memory_of(48);
  const bool is_last = world().rank() + 1 == world().size();
  const std::int64_t size =
      find_batch_size(step, state, rows, {.power_of_two = false, .budget = is_last ? room : 100 * room});
  partitioner->expect_same("the batch size", std::to_string(size));
  EXPECT_GE(size, 48);
  EXPECT_EQ(size % world().size(), 0);
  const std::size_t needed = memory_of(size), more = memory_of(size + world().size());
  if (is_last) {
    EXPECT_LE(needed, room);
    EXPECT_GT(more, room);
  }
}

}  // namespace
}  // namespace giro::test
