#include "runtime/program/memory_index.h"

#include <gtest/gtest.h>

#include <vector>

#include <giro/runtime/device.h>

#include "tests/support/expect_error.h"

namespace giro::rules {
namespace {

using Numbers = std::vector<std::size_t>;

class MemoryIndexTest : public ::testing::Test {
 protected:
  // A range of the memory's floats.
  Tensor part(std::int64_t begin, std::int64_t end) {
    return {memory_ + begin, DType::f32, {end - begin}, Device::cpu()};
  }
  detail::HeldOp op(std::vector<Tensor> writes, std::vector<Tensor> reads) {
    return {Program::Node("op", std::move(writes), std::move(reads)), stream_, nullptr};
  }

  const Stream stream_{Device::cpu()};
  float memory_[100] = {};
};

TEST_F(MemoryIndexTest, OpsAreFoundByTheirMemory) {
  const std::vector<detail::HeldOp> ops{op({part(0, 10)}, {}), op({part(20, 30)}, {part(0, 5)}),
                                        op({part(40, 50)}, {part(20, 30)})};
  const MemoryIndex index(ops);
  EXPECT_EQ(index.ops_at(part(0, 10)), (Numbers{0, 1}));
  EXPECT_EQ(index.ops_at(part(7, 8)), (Numbers{0, 1}));
  EXPECT_EQ(index.ops_at(part(20, 30)), (Numbers{1, 2}));
  EXPECT_EQ(index.ops_at(part(40, 41)), (Numbers{2}));
  EXPECT_EQ(index.ops_at(part(10, 20)), Numbers());
  EXPECT_EQ(index.ops_at(part(60, 70)), Numbers());
}

TEST_F(MemoryIndexTest, TransitiveOverlapsFormOneRegion) {
  const std::vector<detail::HeldOp> ops{op({part(0, 10)}, {}), op({part(9, 20)}, {}), op({}, {part(19, 30)}),
                                        op({part(30, 40)}, {part(35, 36)})};
  const MemoryIndex index(ops);
  EXPECT_EQ(index.ops_at(part(0, 1)), (Numbers{0, 1, 2}));
  EXPECT_EQ(index.ops_at(part(29, 30)), (Numbers{0, 1, 2}));
  EXPECT_EQ(index.ops_at(part(30, 31)), (Numbers{3})) << "what only borders on it is another";
}

TEST_F(MemoryIndexTest, TracksReplacedOps) {
  const std::vector<detail::HeldOp> ops{op({part(0, 10)}, {}), op({part(20, 30)}, {part(0, 10)}),
                                        op({part(40, 50)}, {part(20, 30)})};
  MemoryIndex index(ops);
  index.remove(1, ops[1]);
  EXPECT_EQ(index.ops_at(part(0, 10)), (Numbers{0}));
  EXPECT_EQ(index.ops_at(part(20, 30)), (Numbers{2}));
  index.add(1, op({part(40, 50)}, {part(0, 10)}));
  EXPECT_EQ(index.ops_at(part(0, 10)), (Numbers{0, 1}));
  EXPECT_EQ(index.ops_at(part(40, 50)), (Numbers{1, 2}));
  test::expect_error(ErrorCode::invalid_argument, {"op", "no op of the program touched"},
                     [&] { index.add(0, op({part(70, 80)}, {})); });
}

}  // namespace
}  // namespace giro::rules
