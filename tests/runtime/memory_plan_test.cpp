#include "runtime/program/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace giro::detail {
namespace {

void expect_apart(const std::vector<PlannedBlock>& blocks, std::size_t total) {
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const PlannedBlock& a = blocks[i];
    ASSERT_LE(a.offset + a.bytes, total);
    for (std::size_t j = 0; j < i; ++j) {
      const PlannedBlock& b = blocks[j];
      const bool same_time = a.first <= b.last && b.first <= a.last;
      ASSERT_TRUE(!same_time || a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset) << i << ", " << j;
    }
  }
}

TEST(MemoryPlan, BlocksWithDisjointLifetimesShareMemory) {
  std::vector<PlannedBlock> blocks{{256, 0, 1}, {512, 1, 2}, {256, 2, 3}};
  EXPECT_EQ(plan_memory(blocks), 768u);
  EXPECT_EQ(min_memory(blocks), 768u);
  expect_apart(blocks, 768);
  EXPECT_EQ(blocks[0].offset, blocks[2].offset);
  std::vector<PlannedBlock> none;
  EXPECT_EQ(plan_memory(none), 0u);
  EXPECT_EQ(min_memory(none), 0u);
}

TEST(MemoryPlan, RandomProgramsNeedLittleMoreThanTheMinimum) {
  std::mt19937 random(7);
  double worst = 1, sum = 0;
  constexpr int kPrograms = 300;
  for (int program = 0; program < kPrograms; ++program) {
    std::vector<PlannedBlock> blocks(1 + random() % 60);
    for (PlannedBlock& block : blocks) {
      block.bytes = 256 * (1 + random() % (random() % 4 == 0 ? 1000 : 50));
      block.first = random() % 40;
      block.last = block.first + random() % (random() % 5 == 0 ? 40 : 4);
    }
    const std::size_t total = plan_memory(blocks), least = min_memory(blocks);
    expect_apart(blocks, total);
    ASSERT_GE(total, least);
    const double ratio = static_cast<double>(total) / static_cast<double>(least);
    worst = std::max(worst, ratio);
    sum += ratio;
  }
  EXPECT_LT(sum / kPrograms, 1.05);
  EXPECT_LT(worst, 1.5);
}

}  // namespace
}  // namespace giro::detail
