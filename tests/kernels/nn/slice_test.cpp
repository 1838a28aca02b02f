#include <giro/kernels/nn/slice.h>

#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include <giro/kernels/nn/call.h>
#include <giro/kernels/nn/matmul.h>
#include <giro/runtime/program/graph.h>
#include <giro/runtime/program/program.h>

#include "kernels/rules/record.h"
#include "tests/kernels/nn/gradient_test.h"
#include "tests/kernels/precisions.h"

namespace giro::nn {
namespace {

using test::Array;

class SliceTest : public GradientTest {
 protected:
  // Values 0, 1, 2, ...
  Var counted(const Shape& shape, DType dtype = DType::f32) {
    Array array{dtype, shape, Doubles(static_cast<std::size_t>(shape.count()))};
    std::iota(array.values.begin(), array.values.end(), 0);
    return Var(upload(array), stream());
  }
  using GradientTest::value;
  Var value(const Shape& shape, const Doubles& values) { return value(DType::f32, shape, values); }
  // Records the body, runs it, and returns the names of the ops that the rules leave.
  std::vector<std::string> ops(const std::function<void()>& body) {
    const Graph graph = rules::record(stream(), body);
    graph.replay(stream());
    std::vector<std::string> names;
    for (const Program::Node& node : graph.program().nodes()) names.push_back(node.op);
    return names;
  }
};

TEST_P(SliceTest, AcceptsNumPySlices) {
  const Var x = counted({6}), y = counted({2, 3, 2});
  EXPECT_EQ(read(slice(x, {.begin = 1, .end = 4})), (Doubles{1, 2, 3}));
  EXPECT_EQ(read(slice(x, {.begin = -2})), (Doubles{4, 5}));
  EXPECT_EQ(read(slice(x, {.end = -4})), (Doubles{0, 1}));
  EXPECT_EQ(read(slice(x, {.step = 4})), (Doubles{0, 4}));
  EXPECT_EQ(read(slice(x, {.begin = 1, .step = 2})), (Doubles{1, 3, 5}));
  EXPECT_EQ(read(slice(x, {.step = -1})), (Doubles{5, 4, 3, 2, 1, 0}));
  EXPECT_EQ(read(slice(x, {.begin = 4, .end = 0, .step = -3})), (Doubles{4, 1}));
  EXPECT_EQ(read(slice(x, {.begin = -2, .step = -2})), (Doubles{4, 2, 0}));
  EXPECT_EQ(slice(x, {.begin = 3, .end = 3}).shape(), Shape{0});
  EXPECT_EQ(slice(x, {.begin = 6}).shape(), Shape{0});
  EXPECT_EQ(read(slice(y, {.axis = 1, .begin = 1})), (Doubles{2, 3, 4, 5, 8, 9, 10, 11}));
  EXPECT_EQ(slice(y, {.axis = 1, .begin = 1}).shape(), (Shape{2, 2, 2}));
  EXPECT_EQ(read(slice(y, {.axis = -1, .step = -2})), (Doubles{1, 3, 5, 7, 9, 11}));
  EXPECT_EQ(slice(x, {}).value().raw(), x.value().raw()) << "all of it is itself";
}

TEST_P(SliceTest, SplitsAndConcatenates) {
  const Var x = counted({2, 6});
  const std::vector<Var> thirds = split(x, 3, 1), uneven = split(x, {1, 0, 3, 2}, -1), rows = split(x, 2);
  ASSERT_EQ(thirds.size(), 3u);
  EXPECT_EQ(read(thirds[1]), (Doubles{2, 3, 8, 9}));
  ASSERT_EQ(uneven.size(), 4u);
  EXPECT_EQ(uneven[1].shape(), (Shape{2, 0}));
  EXPECT_EQ(read(uneven[2]), (Doubles{1, 2, 3, 7, 8, 9}));
  EXPECT_EQ(read(rows[1]), (Doubles{6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(read(concatenate(thirds, 1)), read(x));
  EXPECT_EQ(read(concatenate(uneven, 1)), read(x));
  EXPECT_EQ(read(concatenate({rows[1], rows[0], rows[1]})),
            (Doubles{6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(read(concatenate({thirds[0], x}, 1)), (Doubles{0, 1, 0, 1, 2, 3, 4, 5, 6, 7, 6, 7, 8, 9, 10, 11}));
  const Var a = value({2}, {1, 2}), b = value({2}, {3, 4});
  EXPECT_EQ(read(stack({a, b})), (Doubles{1, 2, 3, 4}));
  EXPECT_EQ(read(stack({a, b}, -1)), (Doubles{1, 3, 2, 4}));
  EXPECT_EQ(stack({a, b, a}, 1).shape(), (Shape{2, 3}));
  EXPECT_EQ(read(stack({value({}, {5}), value({}, {6})})), (Doubles{5, 6}));
  EXPECT_EQ(concatenate({slice(a, {.end = 0}), slice(b, {.end = 0})}).shape(), Shape{0});
}

TEST_P(SliceTest, ManyParts) {
  std::vector<Var> equal, unequal;
  Doubles all_equal, all_unequal;
  for (int i = 0; i < 40; ++i) {
    const std::int64_t size = 1 + i % 3;
    equal.push_back(value({2}, {i + 0.25, i + 0.5}));
    unequal.push_back(value({size}, Doubles(static_cast<std::size_t>(size), i)));
    all_equal.insert(all_equal.end(), {i + 0.25, i + 0.5});
    all_unequal.insert(all_unequal.end(), static_cast<std::size_t>(size), i);
  }
  EXPECT_EQ(read(concatenate(equal)), all_equal);
  EXPECT_EQ(read(concatenate(unequal)), all_unequal);
}

TEST_P(SliceTest, Pads) {
  const Var x = counted({2, 3});
  EXPECT_EQ(read(pad(x, {.axis = 1, .before = 1, .after = 2})), (Doubles{0, 0, 1, 2, 0, 0, 0, 3, 4, 5, 0, 0}));
  EXPECT_EQ(read(pad(x, {.before = 1, .value = -1.5})), (Doubles{-1.5, -1.5, -1.5, 0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(read(pad(x, {.axis = -1, .after = 1, .value = 7})), (Doubles{0, 1, 2, 7, 3, 4, 5, 7}));
  EXPECT_EQ(read(pad(x, {.axis = 1, .before = 1, .after = 1, .value = test::kInfinity}))[4], test::kInfinity);
  EXPECT_EQ(read(pad(slice(x, {.end = 0}), {.after = 1, .value = 2})), (Doubles{2, 2, 2}));
  EXPECT_EQ(read(pad(value({1, 1}, {3}), {.axis = 1, .before = 2})), (Doubles{0, 0, 3}));
  EXPECT_EQ(read(pad(pad(value({1}, {3}), {.before = 1}), {.after = 1, .value = 4})), (Doubles{0, 3, 4}));
  EXPECT_EQ(read(sum(pad(x, {.axis = 1, .before = 5, .after = 9, .value = 1}), {1})), (Doubles{17, 26}));
}

TEST_P(SliceTest, EveryDtype) {
  for (const DType dtype : test::kAllDTypes) {
    const Array array{dtype, {2, 3}, {1, 0, 1, 1, 1, 0}};
    const Var x(upload(array), stream());
    EXPECT_EQ(slice(x, {.axis = 1, .end = 2}).dtype(), dtype);
    EXPECT_EQ(read(slice(x, {.axis = 1, .end = 2})), (Doubles{1, 0, 1, 1})) << name_of(dtype);
    EXPECT_EQ(read(pad(x, {.axis = 1, .before = 1, .value = 1})), (Doubles{1, 1, 0, 1, 1, 1, 1, 0})) << name_of(dtype);
    EXPECT_EQ(read(concatenate(split(x, 3, 1), 1)), array.values) << name_of(dtype);
    EXPECT_EQ(read(concatenate(split(x, {1, 2}, 1), 1)), array.values) << name_of(dtype);
  }
  EXPECT_EQ(concatenate({counted({2}, DType::i32), counted({3}, DType::bf16)}).dtype(), DType::bf16);
}

TEST_P(SliceTest, GradientsGoToTheirElements) {
  const Array x = random_.uniform({4, 6}), row = random_.uniform({6}), other = random_.uniform({4, 3});
  check("two halves", {x}, [](const Vars& p) {
    const std::vector<Var> half = split(p[0], 2, 1);
    return half[0] * half[1];
  });
  check("every other", {row},
        [](const Vars& p) { return slice(p[0], {.step = 2}) * slice(p[0], {.begin = 1, .step = 2}); });
  if (device().is_cuda()) return;  // the other gradients consist of the same ops, and each would need kernels
  check("a part", {x}, [](const Vars& p) { return square(slice(p[0], {.axis = 1, .begin = 1, .end = 4})); });
  check("parts that overlap", {row}, [](const Vars& p) {
    return slice(p[0], {.end = 4}) * slice(p[0], {.begin = 2}) * slice(p[0], {.begin = 1, .end = 5});
  });
  check("a part twice", {row},
        [](const Vars& p) { return slice(p[0], {.end = 3}) * slice(p[0], {.end = 3}) + slice(p[0], {.begin = 3}); });
  check("parts and all", {row}, [](const Vars& p) {
    const std::vector<Var> half = split(p[0], 2);
    return concatenate({half[0] * half[1], square(p[0])});
  });
  check("backwards in steps", {row}, [](const Vars& p) { return square(slice(p[0], {.begin = 4, .step = -3})); });
  check("steps of a middle axis", {random_.uniform({2, 7, 2})},
        [](const Vars& p) { return square(slice(p[0], {.axis = 1, .begin = 1, .step = 3})); });
  check("uneven parts", {x}, [](const Vars& p) {
    const std::vector<Var> part = split(p[0], {1, 2, 3}, 1);
    return part[0] * part[1] * slice(part[2], {.axis = 1, .begin = 1});
  });
  check("part of a part", {x},
        [](const Vars& p) { return square(slice(slice(p[0], {.begin = 1, .end = 3}), {.axis = 1, .begin = 2})); });
  check("pad", {x}, [](const Vars& p) { return square(pad(p[0], {.axis = 1, .before = 2, .after = 1, .value = 3})); });
  check("concatenate", {x, other}, [](const Vars& p) { return square(concatenate({p[0], p[1], p[0]}, 1)); });
  check("stack", {row, random_.uniform({6})}, [](const Vars& p) { return square(stack({p[0], p[1]}, 1)); });
}

// Twice the gradient of a cube's gradient is the gradient of 6 x^2.
TEST_P(SliceTest, GradientsCanBeDifferentiatedAgain) {
  if (device().is_cuda()) return;
  const Doubles values{1, 2, 3, 4};
  const auto second = [&](const std::function<Var(const Var&)>& f) {
    const Var x = Var::parameter(upload({DType::f32, {4}, values}), allocate(DType::f32, {4}), stream());
    const Var first = nn::gradients(sum(f(x)), {x}).front();
    return read(nn::gradients(sum(first * x), {x}).front());
  };
  const auto cube = [](const Var& x) { return x * x * x; };
  EXPECT_EQ(second([&](const Var& x) { return cube(slice(x, {.begin = 1, .end = 3})); }), (Doubles{0, 36, 81, 0}));
  EXPECT_EQ(second([&](const Var& x) { return cube(slice(x, {.begin = 3, .step = -2})); }), (Doubles{0, 36, 0, 144}));
  EXPECT_EQ(second([&](const Var& x) {
              const std::vector<Var> half = split(x, 2);
              return cube(half[0]) + 2 * cube(half[1]);
            }),
            (Doubles{9, 36, 162, 288}));
  EXPECT_EQ(second([&](const Var& x) {
              return cube(concatenate({x, slice(x, {.end = 1})}));
            }),
            (Doubles{18, 36, 81, 144}));
  EXPECT_EQ(second([&](const Var& x) { return cube(pad(x, {.before = 1, .value = 9})); }), (Doubles{9, 36, 81, 144}));
}

std::pair<Var, Var> lstm(const Var& z, const Var& c) {
  const std::vector<Var> gate = split(z, 4, 1);
  const Var next = sigmoid(gate[1]) * c + sigmoid(gate[0]) * tanh(gate[2]);
  return {sigmoid(gate[3]) * tanh(next), next};
}

TEST_P(SliceTest, LstmCellIsOneKernelPerPass) {
  constexpr std::int64_t kBatch = 3, kSize = 16;
  const Array z = random_.uniform({kBatch, 4 * kSize}), c = random_.uniform({kBatch, kSize});
  const Var given_z(upload(z), stream()), given_c(upload(c), stream());
  std::pair<Var, Var> kept;
  EXPECT_EQ(ops([&] { kept = lstm(given_z, given_c); }).size(), 1u);
  const auto by_itself = lstm(given_z, given_c);
  EXPECT_EQ(read(kept.first), read(by_itself.first));
  EXPECT_EQ(read(kept.second), read(by_itself.second));

  const Var parameter_z = Var::parameter(given_z.value(), allocate(DType::f32, z.shape), stream());
  const Var parameter_c = Var::parameter(given_c.value(), allocate(DType::f32, c.shape), stream());
  const Var dh(upload(random_.uniform(c.shape)), stream()), dc(upload(random_.uniform(c.shape)), stream());
  const auto [h, next] = lstm(parameter_z, parameter_c);
  // A loss with gradients with respect to h and next, in place of the next step.
  const Var loss = call("next step", {}, {h, next},
                        {.cuda = [](const Tensor&, const std::vector<Tensor>&, CUstream_st*) {},
                         .cpu = [](const Tensor&, const std::vector<Tensor>&) {},
                         .vjp =
                             [&](const Var&, const Var&, const std::vector<Var>&) {
                               return Gradients{dh, dc};
                             }});
  std::vector<Var> gradients;
  const std::vector<std::string> backward = ops([&] {
    gradients = nn::gradients(loss, {parameter_z, parameter_c});
    for (Var& each : gradients) each = stop_gradient(each);
  });
  EXPECT_EQ(backward.size(), 1u) << fmt::format("{}", fmt::join(backward, " "));
  const std::vector<Var> unfused = nn::gradients(loss, {parameter_z, parameter_c});
  EXPECT_EQ(read(gradients[0]), read(unfused[0]));
  EXPECT_EQ(read(gradients[1]), read(unfused[1]));
}

TEST_P(SliceTest, PartsAreComputedInPlace) {
  const Var a(upload(random_.uniform({4, 8})), stream()), b(upload(random_.uniform({4, 8})), stream());
  Var kept;
  EXPECT_EQ(ops([&] { kept = concatenate({exp(a), a * b, tanh(b)}, 1); }).size(), 1u);
  EXPECT_EQ(ops([&] { kept = stack({exp(a), a * b}, 2); }).size(), 1u);
  EXPECT_EQ(ops([&] { kept = tanh(slice(concatenate({a, b}, 1), {.axis = 1, .begin = 8})); }).size(), 1u);
  EXPECT_EQ(ops([&] { kept = sum(pad(a, {.axis = 1, .before = 3, .value = 1}) * 2, {1}); }).size(), 1u);
  EXPECT_EQ(ops([&] {
              kept = concatenate({a, slice(b, {.axis = 1, .end = 3})}, 1) + 1;
            }).size(),
            2u)
      << "the slice of b lies elsewhere in the result";
}

// Parts along the first axis are contiguous: they are slices without a copy, and products write there directly.
TEST_P(SliceTest, ContiguousPartsAreNotCopied) {
  const Var a(upload(random_.uniform({4, 8})), stream()), b(upload(random_.uniform({8, 3})), stream());
  const Var one = slice(a, {.begin = 1, .end = 3});
  EXPECT_EQ(one.value().raw(), a.value().rows(1, 3).raw());
  using Names = std::vector<std::string>;
  Var kept;
  const auto product = [&](std::int64_t row) { return matmul(slice(a, {.begin = row, .end = row + 2}), b); };
  const auto expect = [&](const Names& names, const std::function<Var()>& f) {
    EXPECT_EQ(ops([&] { kept = f(); }), names);
    EXPECT_EQ(read(kept), read(f()));
  };
  expect({"matmul", "matmul"}, [&] { return concatenate({product(0), product(2)}); });
  expect({"matmul", "matmul"}, [&] { return stack({product(0), product(2)}); });
  expect({"matmul", "matmul", "concatenate"}, [&] { return concatenate({product(0), product(2)}, 1); });
  expect({"matmul", "concatenate"}, [&] {
    const Var one = product(0);
    return concatenate({one, one});
  });
  expect({"matmul", "concatenate"}, [&] { return concatenate({slice(b, {.begin = 4, .end = 6}), product(1)}); });
  expect(Names(40, "matmul"), [&] {
    Vars rows;
    for (int i = 0; i < 40; ++i) rows.push_back(product(i % 3));
    return concatenate(rows);
  });
}

// A result may take the memory of a value only if no part of that value is read out of order.
TEST_P(SliceTest, PartsAreReadBeforeBeingOverwritten) {
  const Var a(upload(random_.uniform({4, 8})), stream()), b(upload(random_.uniform({8, 8})), stream());
  for (const int row : {0, 1, 3}) {
    const auto f = [&] {
      const Var h = matmul(a, b);
      return matmul(h - slice(h, {.begin = row, .end = row + 1}), b);
    };
    Var kept;
    ops([&] { kept = f(); });
    EXPECT_EQ(read(kept), read(f())) << row;
    const auto g = [&] {
      const Var h = matmul(a, b).reshape({1, 32});
      return matmul((h - slice(h, {.axis = 1, .begin = row, .end = row + 1})).reshape({4, 8}), b);
    };
    ops([&] { kept = g(); });
    EXPECT_EQ(read(kept), read(g())) << row;
  }
}

TEST_P(SliceTest, EmptyAndUnalignedRows) {
  // Two bytes an element leave most rows unaligned; not every CPU has products of these.
  const DType dtype = test::computes_in(Precision::bf16, device()) ? DType::bf16 : DType::f32;
  const Var x = counted({5, 3}, dtype), w(upload({dtype, {3, 3}, {1, 0, 0, 0, 1, 0, 0, 0, 1}}), stream());
  for (const std::int64_t row : {0, 3, 5}) {
    EXPECT_EQ(slice(x, {.begin = row, .end = row}).shape(), (Shape{0, 3}));
    EXPECT_EQ(read(concatenate({slice(x, {.begin = row, .end = row}), x})), read(x));
  }
  EXPECT_EQ(read(matmul(slice(x, {.begin = 1, .end = 4}), w)), (Doubles{3, 4, 5, 6, 7, 8, 9, 10, 11}));
  Var kept;
  ops([&] {
    kept = concatenate({matmul(slice(x, {.end = 1}), w), matmul(slice(x, {.begin = 2, .end = 3}), w),
                        matmul(slice(x, {.begin = 4}), w)});
  });
  EXPECT_EQ(read(kept), (Doubles{0, 1, 2, 6, 7, 8, 12, 13, 14}));
}

TEST_P(SliceTest, RejectsOutOfRangeSlices) {
  const Var x = counted({2, 6}), y = counted({3});
  expect_error(ErrorCode::invalid_argument, {"slice", "axis 2", "(2, 6)"}, [&] { (void)slice(x, {.axis = 2}); });
  expect_error(ErrorCode::invalid_argument, {"slice", "begin 7", "-6 to 6", "axis 1 of (2, 6)"},
               [&] { (void)slice(x, {.axis = 1, .begin = 7}); });
  expect_error(ErrorCode::invalid_argument, {"slice", "end -7"}, [&] { (void)slice(x, {.axis = 1, .end = -7}); });
  expect_error(ErrorCode::invalid_argument, {"slice", "end 2 before begin 4"},
               [&] { (void)slice(x, {.axis = 1, .begin = 4, .end = 2}); });
  expect_error(ErrorCode::invalid_argument, {"slice", "begin 6", "-6 to 5"},
               [&] { (void)slice(x, {.axis = 1, .begin = 6, .step = -1}); });
  expect_error(ErrorCode::invalid_argument, {"slice", "step 0"}, [&] { (void)slice(x, {.step = 0}); });
  expect_error(ErrorCode::invalid_argument, {"slice", "number 3"}, [&] { (void)slice(3, {}); });
  expect_error(ErrorCode::shape_mismatch, {"split", "axis 1", "(2, 6)", "4 parts"}, [&] { (void)split(x, 4, 1); });
  expect_error(ErrorCode::shape_mismatch, {"split", "2, 3", "6"}, [&] { (void)split(x, {2, 3}, 1); });
  expect_error(ErrorCode::shape_mismatch, {"concatenate", "(3,)", "(2, 6)"}, [&] { (void)concatenate({x, y}); });
  expect_error(ErrorCode::shape_mismatch, {"concatenate", "(3, 2)", "(2, 6)", "axis 1"}, [&] {
    (void)concatenate({x, counted({3, 2})}, 1);
  });
  expect_error(ErrorCode::invalid_argument, {"concatenate", "axis 1", "(3,)"}, [&] { (void)concatenate({y, y}, 1); });
  expect_error(ErrorCode::invalid_argument, {"concatenate", "none"}, [&] { (void)concatenate({}); });
  expect_error(ErrorCode::shape_mismatch, {"stack", "(3,)", "(2, 6)"}, [&] { (void)stack({x, y}); });
  expect_error(ErrorCode::invalid_argument, {"stack", "axis 2", "-2 to 1"}, [&] { (void)stack({y, y}, 2); });
  expect_error(ErrorCode::invalid_argument, {"pad", "-1 before", "axis 0"}, [&] { (void)pad(y, {.before = -1}); });
  expect_error(ErrorCode::invalid_argument, {"pad", "300", "u8"},
               [&] { (void)pad(counted({3}, DType::u8), {.after = 1, .value = 300}); });
  expect_error(ErrorCode::invalid_argument, {"pad", "0.5", "i32"},
               [&] { (void)pad(counted({3}, DType::i32), {.after = 1, .value = 0.5}); });
}

INSTANTIATE_TEST_SUITE_P(Devices, SliceTest, test::kDevices, test::device_name);

}  // namespace
}  // namespace giro::nn
