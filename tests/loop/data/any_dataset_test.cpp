#include <giro/loop/data/any_dataset.h>

#include <gtest/gtest.h>

#include <ranges>
#include <vector>

namespace giro {
namespace {

TEST(AnyDataset, MakesEachBatchOnceAndKeepsTheLast) {
  int made = 0;
  const AnyDataset<int> dataset(std::views::iota(0, 3) | std::views::transform([&](int i) {
                                  ++made;
                                  return 10 * i;
                                }));
  for (int pass = 1; pass <= 2; ++pass) {
    std::vector<int> seen;
    auto it = dataset.begin();
    for (; it != dataset.end(); ++it) {
      seen.push_back(*it);
      EXPECT_EQ(*it, seen.back());
    }
    EXPECT_EQ(seen, (std::vector{0, 10, 20}));
    EXPECT_EQ(*it, 20) << "at the end";
    EXPECT_EQ(made, 3 * pass);
  }
}

}  // namespace
}  // namespace giro
