#include <giro/runtime/shape.h>

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "tests/support/expect_error.h"

namespace giro {
namespace {

using test::expect_error;
constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();

TEST(Shape, ScalarHasNoAxesAndOneElement) {
  const Shape scalar;
  EXPECT_EQ(scalar.rank(), 0u);
  EXPECT_EQ(scalar.count(), 1);
  EXPECT_EQ(scalar, Shape({}));
  EXPECT_EQ(to_string(scalar), "()");
}

TEST(Shape, AxesCountFromEitherEnd) {
  const Shape shape{2, 3, 5};
  EXPECT_EQ(shape.rank(), 3u);
  EXPECT_EQ(shape.count(), 30);
  EXPECT_EQ(shape[0], 2);
  EXPECT_EQ(shape[2], 5);
  EXPECT_EQ(shape[-1], 5);
  EXPECT_EQ(shape[-3], 2);
  EXPECT_EQ(std::vector<std::int64_t>(shape.begin(), shape.end()), (std::vector<std::int64_t>{2, 3, 5}));
  for (const int axis : {3, -4}) {
    expect_error(ErrorCode::invalid_argument, {std::to_string(axis), "(2, 3, 5)"}, [&] { (void)shape[axis]; });
  }
}

TEST(Shape, PrintsLikeNumPy) {
  EXPECT_EQ(to_string(Shape{7}), "(7,)");
  EXPECT_EQ(to_string(Shape{32, 28, 28, 1}), "(32, 28, 28, 1)");
}

TEST(Shape, FrontAxisIsAddedAndDropped) {
  const Shape shape{32, 28, 1};
  EXPECT_EQ(shape.drop_front(), Shape({28, 1}));
  EXPECT_EQ(shape.drop_front().with_front(4), Shape({4, 28, 1}));
  EXPECT_EQ(Shape().with_front(3), Shape({3}));
  expect_error(ErrorCode::invalid_argument, {"scalar"}, [] { Shape().drop_front(); });
  expect_error(ErrorCode::invalid_argument, {"6", "7"}, [] { Shape({1, 1, 1, 1, 1, 1}).with_front(1); });
}

TEST(Shape, ComparesRankAndSizes) {
  EXPECT_EQ(Shape({2, 3}), Shape({2, 3}));
  EXPECT_NE(Shape({2, 3}), Shape({3, 2}));
  EXPECT_NE(Shape({2, 3}), Shape({2, 3, 1}));
  EXPECT_NE(Shape({1}), Shape({}));
}

TEST(Shape, ZeroSizeMakesItEmpty) {
  EXPECT_EQ(Shape({3, 0, 5}).count(), 0);
  EXPECT_EQ(Shape({0}).count(), 0);
}

TEST(Shape, RejectsInvalidSizes) {
  expect_error(ErrorCode::invalid_argument, {"6", "7"}, [] { Shape{1, 1, 1, 1, 1, 1, 1}; });
  expect_error(ErrorCode::invalid_argument, {"axis 1", "-3"}, [] { Shape{2, -3}; });
  EXPECT_EQ(Shape({kHuge}).count(), kHuge);
  expect_error(ErrorCode::invalid_argument, {"overflow"}, [] { Shape{kHuge, 2}; });
  expect_error(ErrorCode::invalid_argument, {"overflow"}, [] { Shape{kHuge, 0, 2}; });
  expect_error(ErrorCode::invalid_argument, {"overflow"}, [] { Shape{1l << 32, 1l << 31}; });
}

}  // namespace
}  // namespace giro
