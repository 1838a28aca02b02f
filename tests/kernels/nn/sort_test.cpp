#include <giro/kernels/nn/sort.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include <giro/kernels/nn/functional.h>
#include <giro/runtime/program/graph.h>

#include "tests/kernels/nn/gradient_test.h"

namespace giro::nn {
namespace {

using test::Array, test::kNaN;

class SortVarTest : public GradientTest {};

TEST_P(SortVarTest, WorksAlongAnyAxis) {
  const Var x = value(DType::f32, {2, 3, 2}, {6, 1, 4, 3, 5, 2, 0, 9, 0, 8, -1, 7});
  EXPECT_EQ(read(sort(x)), (Doubles{1, 6, 3, 4, 2, 5, 0, 9, 0, 8, -1, 7}));
  EXPECT_EQ(read(sort(x, 1)), (Doubles{4, 1, 5, 2, 6, 3, -1, 7, 0, 8, 0, 9}));
  EXPECT_EQ(read(argsort(x, 1)), (Doubles{1, 0, 2, 2, 0, 1, 2, 2, 0, 1, 1, 0}));
  EXPECT_EQ(read(sort(x, -3)), (Doubles{0, 1, 0, 3, -1, 2, 6, 9, 4, 8, 5, 7}));
  EXPECT_EQ(argsort(x, 0).dtype(), DType::i64);
  for (const int axis : {0, 1, 2}) EXPECT_EQ(sort(value(DType::f32, {2, 0, 3}, {}), axis).shape(), (Shape{2, 0, 3}));
}

TEST_P(SortVarTest, DtypesAndNaN) {
  for (const DType dtype : test::kAllDTypes) {
    const Var sorted = sort(value(dtype, {4}, {1, 0, 1, 0}));
    EXPECT_EQ(sorted.dtype(), dtype);
    EXPECT_EQ(read(sorted), (Doubles{0, 0, 1, 1})) << name_of(dtype);
  }
  const Var x = value(DType::bf16, {5}, {2, kNaN, -1, kNaN, 1});
  EXPECT_EQ(read(argsort(x)), (Doubles{2, 4, 0, 1, 3}));
  EXPECT_TRUE(std::isnan(read(sort(x))[4]));
  EXPECT_EQ(read(top_k(x, 3).indices), (Doubles{1, 3, 0}));
}

TEST_P(SortVarTest, TopK) {
  const Var x = value(DType::f32, {2, 5}, {3, 7, 7, 1, 5, -2, -1, -3, -1, -9});
  const TopK top = top_k(x, 3);
  EXPECT_EQ(read(top.values), (Doubles{7, 7, 5, -1, -1, -2}));
  EXPECT_EQ(read(top.indices), (Doubles{1, 2, 4, 1, 3, 0}));
  EXPECT_EQ(top.indices.dtype(), DType::i64);
  EXPECT_EQ(top_k(x, 0).values.shape(), (Shape{2, 0}));
  EXPECT_EQ(read(top_k(x, 5).values), (Doubles{7, 7, 5, 3, 1, -1, -1, -2, -3, -9}));
}

TEST_P(SortVarTest, Gradients) {
  const Array x = separated({2, 5, 3});
  for (const int axis : {0, 1, 2}) {
    check("sort", {x}, [&](const Vars& in) { return square(sort(in[0], axis)); });
  }
  for (const std::int64_t k : {1, 2, 3}) {
    check("top_k", {x}, [&](const Vars& in) { return square(top_k(in[0], k).values); });
  }
}

TEST_P(SortVarTest, ReplaysWithOtherValues) {
  const Tensor x = upload(random_.uniform({3, 1500})), y = allocate(DType::f32, {3, 40});
  const Graph graph = Graph::record(stream(), [&] { copy(y, top_k(Var(x, stream()), 40).values.value(), stream()); });
  for (int round = 0; round < 2; ++round) {
    const Array other = random_.uniform({3, 1500});
    copy(x, upload(other), stream());
    graph.replay(stream());
    EXPECT_EQ(read(Var(y, stream())), read(top_k(Var(upload(other), stream()), 40).values));
  }
}

TEST_P(SortVarTest, BadArguments) {
  const Var x = value(DType::f32, {2, 3}, {1, 2, 3, 4, 5, 6});
  expect_error(ErrorCode::invalid_argument, {"sort", "axis 2"}, [&] { (void)sort(x, 2); });
  expect_error(ErrorCode::invalid_argument, {"argsort", "axis 0"}, [&] { (void)argsort(sum(x), 0); });
  expect_error(ErrorCode::invalid_argument, {"top_k", "k is 4", "(2, 3)"}, [&] { (void)top_k(x, 4); });
  expect_error(ErrorCode::invalid_argument, {"top_k", "k is -1"}, [&] { (void)top_k(x, -1); });
}

INSTANTIATE_TEST_SUITE_P(Devices, SortVarTest, test::kDevices, test::device_name);

}  // namespace
}  // namespace giro::nn
