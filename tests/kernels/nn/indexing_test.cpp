#include <giro/kernels/nn/indexing.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include <giro/kernels/nn/functional.h>
#include <giro/runtime/program/graph.h>

#include "kernels/rules/record.h"
#include "tests/kernels/nn/gradient_test.h"
#include "tests/support/tensor_ops.h"

namespace giro::nn {
namespace {

using test::Array, test::kNaN;

class IndexingTest : public GradientTest {
 protected:
  Var ids(const Shape& shape, const Doubles& values, DType dtype = DType::i32) { return value(dtype, shape, values); }
  // Expects an error with these words from the next wait, and none from the one after.
  void expect_fault(std::initializer_list<std::string> words) {
    test::expect_error(ErrorCode::invalid_argument, words, [&] { stream().synchronize(); });
    EXPECT_NO_THROW(stream().synchronize());
  }
};

TEST_P(IndexingTest, TakesAlongAnyAxis) {
  const Var x = value(DType::f32, {2, 3, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  EXPECT_EQ(read(take(x, ids({}, {1}))), (Doubles{7, 8, 9, 10, 11, 12}));
  EXPECT_EQ(take(x, ids({}, {1})).shape(), (Shape{3, 2}));
  EXPECT_EQ(read(take(x, ids({3}, {2, 0, 2}), 1)), (Doubles{5, 6, 1, 2, 5, 6, 11, 12, 7, 8, 11, 12}));
  EXPECT_EQ(read(take(x, ids({1, 2}, {1, 1}), -1)), (Doubles{2, 2, 4, 4, 6, 6, 8, 8, 10, 10, 12, 12}));
  EXPECT_EQ(take(x, ids({1, 2}, {1, 1}), -1).shape(), (Shape{2, 3, 1, 2}));
  EXPECT_EQ(take(x, ids({0}, {}), 1).shape(), (Shape{2, 0, 2}));
}

TEST_P(IndexingTest, TakesEveryDtype) {
  for (const DType dtype : test::kAllDTypes) {
    for (const DType index : test::kLabelDTypes) {
      const Var x = value(dtype, {3, 2}, {1, 0, 0, 1, 1, 1});
      EXPECT_EQ(read(take(x, ids({2}, {2, 1}, index))), (Doubles{1, 1, 0, 1})) << name_of(dtype) << name_of(index);
      const Var y = take(x, ids({2}, {3, 1}, index));
      expect_fault(
          {"take: index 3 at position 0 of " + std::string(name_of(index)) + "(2,)", "at least 0 and below 3"});
      const Doubles outside = read(y);
      EXPECT_TRUE(is_floating(dtype) ? std::isnan(outside[0]) : outside[0] == 0) << name_of(dtype);
      EXPECT_EQ(outside[3], 1);
    }
  }
}

TEST_P(IndexingTest, EmbeddingsOfAnyShape) {
  const Var table = value(DType::bf16, {3, 2}, {1, 2, 3, 4, 5, 6});
  const Var rows = embedding(ids({2, 2}, {2, 0, 0, 1}, DType::u8), table);
  EXPECT_EQ(rows.shape(), (Shape{2, 2, 2}));
  EXPECT_EQ(rows.dtype(), DType::bf16);
  EXPECT_EQ(read(rows), (Doubles{5, 6, 1, 2, 1, 2, 3, 4}));
}

// If there are several, the first position is reported, whichever thread finds its index first.
TEST_P(IndexingTest, IndexOutOfRangeIsReportedByTheNextWait) {
  const Var table = value(DType::f32, {4, 3}, Doubles(12, 1));
  Doubles many(20'000, 3);
  for (std::size_t i = 700; i < many.size(); ++i) many[i] = static_cast<double>(4 + i % 5);
  const int line = __LINE__ + 1;
  const auto rows_of = [&](const Shape& shape, const Doubles& values) { return embedding(ids(shape, values), table); };
  const std::string where = "(called at " + std::string(__FILE__) + ":" + std::to_string(line) + ")";
  rows_of({100, 200}, many);
  expect_fault({"embedding: id 4 at position 700 of i32(100, 200), expected at least 0 and below 4 " + where});
  rows_of({2, 3}, {0, 3, -2, 1, 5, 0});
  expect_fault({"embedding: id -2 at position 2 of i32(2, 3), "});
  // If several ops fail, it is one op's first position.
  rows_of({3}, {0, 3, 9});
  rows_of({3}, {0, 7, 8});
  expect_fault({"embedding: id 7 at position 1 of i32(3,), "});
  take(table, ids({3}, {0, 1, 3}), 1);
  expect_fault({"take: index 3 at position 2 of i32(3,), expected at least 0 and below 3"});
  take(table, ids({2}, {0, 4e9}, DType::i64));
  expect_fault({"take: index 2147483647 or more at position 1 of i64(2,), "});
  take(table, ids({1}, {-4e9}, DType::i64));
  expect_fault({"take: index -2147483648 or less at position 0 of i64(1,), "});
  rows_of({0}, {});
  // These allow an index out of range.
  take_along_axis(table, ids({1, 3}, {-1, 4, 0}), 0);
  scatter_add(table, ids({2}, {-1, 4}), value(DType::f32, {2, 3}, Doubles(6, 1)));
  one_hot(ids({2}, {-1, 4}), 4);
  EXPECT_NO_THROW(stream().synchronize());
}

TEST_P(IndexingTest, ReplayReportsIndexOutOfRange) {
  const Var table = value(DType::f32, {4, 3}, Doubles(12, 1)), at = ids({2, 2}, {0, 1, 2, 3});
  std::optional<Var> rows;
  const Graph graph = rules::record(stream(), [&] { rows = embedding(at, table); });
  graph.replay(stream());
  EXPECT_NO_THROW(stream().synchronize());
  giro::fill(at.value().reshape({4}).rows(2, 3), 4, stream());
  graph.replay(stream(), 3);
  expect_fault({"embedding: id 4 at position 2 of i32(2, 2), expected at least 0 and below 4"});
  graph.replay(stream());
  expect_fault({"embedding: id 4 at position 2 of i32(2, 2), expected at least 0 and below 4"});
}

TEST_P(IndexingTest, TakesSingleElements) {
  const Var x = value(DType::f32, {2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(read(take_along_axis(x, ids({2, 2}, {2, 0, 1, 1}), 1)), (Doubles{3, 1, 5, 5}));
  EXPECT_EQ(read(take_along_axis(x, ids({1, 3}, {1, 0, 1}), 0)), (Doubles{4, 2, 6}));
  EXPECT_EQ(take_along_axis(x, ids({2, 0}, {}), 1).shape(), (Shape{2, 0}));
  const Doubles outside = read(take_along_axis(x, ids({2, 1}, {3, -1}), 1));
  EXPECT_TRUE(std::isnan(outside[0]) && std::isnan(outside[1]));
}

TEST_P(IndexingTest, Gradients) {
  const Array x = random_.uniform({5, 4, 3}), table = random_.uniform({6, 3});
  const Var of_rows = ids({2, 3}, {4, 0, 0, 2, 4, 4});
  check("take 0", {x}, [&](const Vars& p) { return take(square(p[0]), of_rows); });
  check("take 1", {x}, [&](const Vars& p) { return take(square(p[0]), ids({3}, {3, 1, 3}), 1); });
  check("take 2", {x}, [&](const Vars& p) { return take(p[0], ids({4}, {2, 2, 0, 2}), 2); });
  check("embedding", {table}, [&](const Vars& p) { return square(embedding(of_rows, p[0])); });
  const Var one = ids({5, 1, 3}, {0, 1, 2, 3, 3, 3, 2, 1, 0, 0, 0, 0, 1, 2, 3});
  check("one along an axis", {x}, [&](const Vars& p) { return take_along_axis(square(p[0]), one, 1); });
  const Var more = concatenate({one, one, one}, 1);
  check("several along an axis", {x}, [&](const Vars& p) { return take_along_axis(p[0], more, 1); });
  check("scatter_add", {table, random_.uniform({2, 3, 3})},
        [&](const Vars& p) { return square(scatter_add(p[0], of_rows, p[1])); });
}

TEST_P(IndexingTest, GradientsOfGradients) {
  const Tensor grad = allocate(DType::f32, {3});
  const Var p = Var::parameter(upload({DType::f32, {3}, {1, 2, 3}}), grad, stream());
  const Var taken = take(p, ids({4}, {2, 0, 2, 2}));
  // The sum of cubes: the slopes are 3 (1, 0, 27), and the sum of their squares 36 (1, 0, 9 27).
  const Var slopes = nn::gradients(sum(taken * taken * taken), {p}).front();
  EXPECT_EQ(read(slopes), (Doubles{3, 0, 81}));
  backward(sum(square(slopes)));
  EXPECT_EQ(to_host<float>(grad, stream()), (std::vector<float>{36, 0, 2 * 81 * 54}));
}

// The gradient of a 16-bit table is summed in f32 and rounded once.
TEST_P(IndexingTest, GradientOfSixteenBitTable) {
  const Tensor grad = allocate(DType::f32, {4, 1});
  const Var table = Var::parameter(upload({DType::bf16, {4, 1}, {1, 2, 3, 4}}), grad, stream());
  backward(cast(sum(embedding(ids({259}, Doubles(259, 2)), table)), DType::f32));
  EXPECT_EQ(to_host<float>(grad, stream()), (std::vector<float>{0, 0, 259, 0}));
}

TEST_P(IndexingTest, AddsByIndex) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i32, DType::i64, DType::u8}) {
    const Var x = value(dtype, {3, 2}, {1, 2, 3, 4, 5, 6}), updates = value(dtype, {3, 2}, {1, 1, 2, 2, 3, 3});
    const Var y = scatter_add(x, ids({3}, {2, 0, 2}), updates);
    EXPECT_EQ(y.dtype(), dtype);
    EXPECT_EQ(read(y), (Doubles{3, 4, 3, 4, 9, 10})) << name_of(dtype);
    const Doubles outside = read(scatter_add(x, ids({3}, {2, 3, -1}), updates));
    if (is_floating(dtype)) {
      EXPECT_TRUE(std::all_of(outside.begin(), outside.end(), [](double each) { return std::isnan(each); }));
    } else {
      EXPECT_EQ(outside, (Doubles{1, 2, 3, 4, 6, 7})) << name_of(dtype);
    }
    EXPECT_EQ(read(scatter_add(x, ids({0}, {}), value(dtype, {0, 2}, {}))), read(x));
  }
}

TEST_P(IndexingTest, OneHotAndArange) {
  for (const DType dtype : test::kAllDTypes) {
    EXPECT_EQ(read(one_hot(ids({2, 2}, {1, 0, -1, 3}), 3, dtype)), (Doubles{0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0}));
    EXPECT_EQ(one_hot(ids({2}, {1, 0}), 3, dtype).dtype(), dtype);
  }
  EXPECT_EQ(one_hot(ids({2, 2}, {1, 0, -1, 3}), 3).shape(), (Shape{2, 2, 3}));
  EXPECT_EQ(read(arange(4, stream())), (Doubles{0, 1, 2, 3}));
  EXPECT_EQ(read(arange(3, stream(), DType::f16)), (Doubles{0, 1, 2}));
  EXPECT_EQ(arange(0, stream(), DType::u8).shape(), Shape{0});
}

// Many ids of few rows, as in a padded batch: the same bits every time, with and without rules, and with other ids in a
// replay.
TEST_P(IndexingTest, ReplaysTheSameBitsForTheSameAndOtherIds) {
  constexpr std::int64_t kRows = 300, kIds = 700, kWidth = 5;
  const Tensor table = upload(random_.uniform({kRows, kWidth})), indices = allocate(DType::i32, {kIds});
  const Var weights(upload(random_.uniform({kIds, kWidth})), stream());
  const auto run = [&](const Tensor& grad) {
    const Var p = Var::parameter(table, grad, stream());
    backward(sum(embedding(Var(indices, stream()), p) * weights));
  };
  const Tensor replayed = allocate(DType::f32, {kRows, kWidth}), direct = allocate(DType::f32, {kRows, kWidth});
  const Graph graph = rules::record(stream(), [&] { run(replayed); });
  for (int round = 0; round < 3; ++round) {
    Array now = random_.integers({kIds}, 0, kRows - 1, DType::i32);
    for (std::size_t i = 0; i < now.values.size(); i += round + 1) now.values[i] = 7;
    copy(indices, upload(now), stream());
    graph.replay(stream());
    run(direct);
    EXPECT_EQ(to_host<float>(replayed, stream()), to_host<float>(direct, stream()));
  }
}

TEST_P(IndexingTest, BadArguments) {
  const Var x = value(DType::f32, {2, 3}, {1, 2, 3, 4, 5, 6}), i = ids({2}, {0, 1});
  expect_error(ErrorCode::invalid_argument, {"take", "axis 2"}, [&] { (void)take(x, i, 2); });
  expect_error(ErrorCode::dtype_mismatch, {"take", "indices", "f32"}, [&] { (void)take(x, x); });
  expect_error(ErrorCode::shape_mismatch, {"embedding", "(2,)", "(V, D)"},
               [&] { (void)embedding(i, sum(x, {1}).reshape({2})); });
  expect_error(ErrorCode::dtype_mismatch, {"embedding", "ids"}, [&] { (void)embedding(x, x); });
  expect_error(ErrorCode::shape_mismatch, {"take_along_axis", "(2,)", "(2, 3)"},
               [&] { (void)take_along_axis(x, i, 1); });
  expect_error(ErrorCode::shape_mismatch, {"scatter_add", "(3, 2)", "(2, 3)"}, [&] {
    (void)scatter_add(x, i, x.reshape({3, 2}));
  });
  expect_error(ErrorCode::invalid_argument, {"one_hot", "-1"}, [&] { (void)one_hot(i, -1); });
  expect_error(ErrorCode::invalid_argument, {"arange", "256", "u8"}, [&] { (void)arange(257, stream(), DType::u8); });
  expect_error(ErrorCode::invalid_argument, {"arange", "-2"}, [&] { (void)arange(-2, stream()); });
}

INSTANTIATE_TEST_SUITE_P(Devices, IndexingTest, test::kDevices, test::device_name);

}  // namespace
}  // namespace giro::nn
