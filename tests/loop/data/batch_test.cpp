#include <giro/loop/data/batch.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace giro {
namespace {

TEST(Batch, OfVectors) {
  const std::vector<float> xs{1, 2, 3, 4};
  Batch batch;
  {
    const std::vector<std::int32_t> ys{5, 6};
    batch = Batch({{"x", {xs, {2, 2}}}, {"y", ys}});
  }
  EXPECT_EQ(batch.size(), 2);
  EXPECT_EQ(batch["x"].shape(), (Shape{2, 2}));
  EXPECT_EQ(batch["x"].data<float>()[3], 4);
  EXPECT_EQ(batch["y"].data<std::int32_t>()[1], 6);
  EXPECT_EQ(batch.slice(1, 2)["y"].data<std::int32_t>()[0], 6);
}

}  // namespace
}  // namespace giro
