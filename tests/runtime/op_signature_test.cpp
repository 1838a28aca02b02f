#include "runtime/program/op_signature.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include <giro/runtime/error.h>

#include "tests/support/expect_error.h"

namespace giro::detail {
namespace {

using Tensors = std::vector<Tensor>;

Tensor of(const Shape& shape, DType dtype = DType::f32) {
  static double element;
  return {&element, dtype, shape, Device::cpu()};
}

// What is wrong, without the op's name; nothing if all fits.
std::string wrong(const char* line, const Tensors& reads, const Tensors& writes) {
  std::vector<const Tensor*> in, out;
  for (const Tensor& tensor : reads) in.push_back(&tensor);
  for (const Tensor& tensor : writes) out.push_back(&tensor);
  try {
    OpSignature(line).check("op", in, out);
  } catch (const Error& error) {
    return std::string(error.what()).substr(4);
  }
  return "";
}

constexpr const char* kDense = "x: s(bi), w: s(io), b?: s|f32(o) -> y: s(bo)";

TEST(OpSignature, OneLetterHasOneSize) {
  EXPECT_EQ(wrong(kDense, {of({2, 3}), of({3, 4}), of({4})}, {of({2, 4})}), "");
  EXPECT_EQ(wrong(kDense, {of({2, 3}), of({5, 4}), of({4})}, {of({2, 4})}),
            "w is f32(5, 4) on cpu, expected shape (3, O)");
  EXPECT_EQ(wrong(kDense, {of({2, 3}), of({3, 4}), of({5})}, {of({2, 4})}), "b is f32(5,) on cpu, expected shape (4,)");
  EXPECT_EQ(wrong(kDense, {of({2, 3}), of({3, 4}), of({4})}, {of({2, 4, 1})}),
            "y is f32(2, 4, 1) on cpu, expected shape (2, 4)");
  constexpr const char* kRows = "logits: s(r[c]), labels: i(r) -> loss: f32(), dlogits: f32(r[c])";
  EXPECT_EQ(wrong(kRows, {of({2, 3}), of({2}, DType::i32)}, {of({}), of({2, 3})}), "");
  EXPECT_EQ(wrong(kRows, {of({2, 3}), of({2}, DType::i32)}, {of({1}), of({2, 3})}),
            "loss is f32(1,) on cpu, expected shape ()");
}

TEST(OpSignature, OneLetterHasOneDType) {
  const Tensor x = of({2, 3}, DType::bf16), w = of({3, 4}, DType::bf16), b = of({4}), y = of({2, 4}, DType::bf16);
  EXPECT_EQ(wrong(kDense, {x, w, b}, {y}), "");
  EXPECT_EQ(wrong(kDense, {x, w, of({4}, DType::bf16)}, {y}), "");
  EXPECT_EQ(wrong(kDense, {x, of({3, 4}), b}, {y}), "w is f32(3, 4) on cpu, expected dtype bf16");
  EXPECT_EQ(wrong(kDense, {x, w, of({4}, DType::f16)}, {y}), "b is f16(4,) on cpu, expected dtype f32 or bf16");
  EXPECT_EQ(wrong(kDense, {of({2, 3}, DType::f64), w, b}, {y}),
            "x is f64(2, 3) on cpu, expected dtype f32, bf16 or f16");
  EXPECT_EQ(wrong("x: n(r) -> y: n(r)", {of({2}, DType::boolean)}, {of({2}, DType::boolean)}),
            "x is bool(2,) on cpu, expected dtype f32, bf16, f16, f64, i32, i64 or u8");
  EXPECT_EQ(wrong("x: t(r) -> y: t(r)", {of({2}, DType::boolean)}, {of({2}, DType::boolean)}), "");
  EXPECT_EQ(wrong("x: i(r), z: i(r) -> y: *", {of({2}, DType::u8), of({2}, DType::i64)}, {of({2})}), "");
}

TEST(OpSignature, ArgumentsMayBeOmitted) {
  EXPECT_EQ(wrong(kDense, {of({2, 3}), of({3, 4}), Tensor()}, {of({2, 4})}), "");
  EXPECT_EQ(wrong(kDense, {of({2, 3}), Tensor(), Tensor()}, {of({2, 4})}), "w is empty, expected a tensor");
  // One without elements is not omitted.
  EXPECT_EQ(wrong(kDense, {of({0, 3}), of({3, 4}), Tensor()}, {of({0, 4})}), "");
  EXPECT_EQ(wrong(" -> y: f32(r)", {}, {of({3})}), "");
  EXPECT_EQ(wrong("x: f32(r) -> ", {of({3})}, {}), "");
}

TEST(OpSignature, CompoundAxesAreProducts) {
  constexpr const char* kLine = "x: s(n[h][w](gc)), w: s((go)[k][l]c), b: s((go)) -> y: s(n[p][q](go))";
  EXPECT_EQ(wrong(kLine, {of({1, 5, 5, 6}), of({8, 3, 3, 3}), of({8})}, {of({1, 5, 5, 8})}), "");
  // Six channels in groups of four.
  EXPECT_EQ(wrong(kLine, {of({1, 5, 5, 6}), of({8, 3, 3, 4}), of({8})}, {of({1, 5, 5, 8})}),
            "x is f32(1, 5, 5, 6) on cpu, expected shape (1, 5, 5, 4 G)");
  // Two groups of seven filters.
  EXPECT_EQ(wrong(kLine, {of({1, 5, 5, 6}), of({7, 3, 3, 3}), of({7})}, {of({1, 5, 5, 7})}),
            "w is f32(7, 3, 3, 3) on cpu, expected shape (2 O, 3, 3, 3)");
  EXPECT_EQ(wrong("x: f32((ab)) -> y: f32(ab)", {of({6})}, {of({2, 3})}), "");
  EXPECT_EQ(wrong("x: f32((ab)) -> y: f32(ab)", {of({6})}, {of({2, 4})}), "x is f32(6,) on cpu, expected shape (8,)");
}

TEST(OpSignature, AnyAxesBroadcast) {
  constexpr const char* kLine = "a: s(...mk), b: s(...kn) -> out: s(...mn)";
  EXPECT_EQ(wrong(kLine, {of({7, 1, 2, 3}), of({5, 3, 4})}, {of({7, 5, 2, 4})}), "");
  EXPECT_EQ(wrong(kLine, {of({2, 3}), of({3, 4})}, {of({2, 4})}), "");
  EXPECT_EQ(wrong(kLine, {of({7, 2, 3}), of({5, 3, 4})}, {of({7, 2, 4})}),
            "b is f32(5, 3, 4) on cpu, expected shape (..., 3, N)");
  EXPECT_EQ(wrong(kLine, {of({3}), of({3, 4})}, {of({4})}), "a is f32(3,) on cpu, expected shape (..., M, K)");
  // A result does not broadcast.
  EXPECT_NE(wrong(kLine, {of({7, 1, 2, 3}), of({5, 3, 4})}, {of({1, 5, 2, 4})}), "");
  EXPECT_NE(wrong(kLine, {of({7, 1, 2, 3}), of({5, 3, 4})}, {of({5, 2, 4})}), "");
  EXPECT_EQ(wrong("x: s(a[n]...), i: i(r) -> y: s(ar...)", {of({2, 9, 4, 5}), of({3}, DType::u8)}, {of({2, 3, 4, 5})}),
            "");
  EXPECT_EQ(wrong("x: s, i: i(r) -> y: s", {of({2, 9, 4, 5}), of({3}, DType::u8)}, {of({})}), "");
}

TEST(OpSignature, WrongLinesAreErrors) {
  for (const char* const line : {"x -> y: s", "x: q(b) -> y: s", "x: s([n) -> y: s"}) {
    test::expect_error(ErrorCode::invalid_argument, {"signature"}, [&] { OpSignature of_line(line); });
  }
  test::expect_error(ErrorCode::invalid_argument, {"op: ", "3 and 1 arguments", "has 0 and 0"},
                     [&] { OpSignature(kDense).check("op", {}, {}); });
}

TEST(OpSignature, SaysWhatItIsMadeOf) {
  const OpSignature dense(kDense);
  EXPECT_EQ(dense.reads().size(), 3u);
  EXPECT_EQ(dense.writes().front().name, "y");
  EXPECT_TRUE(dense.reads()[2].is_optional);
  const OpSignature rows("x: s(r[c]) -> y: s(...)");
  EXPECT_FALSE(rows.reads()[0].axes->at(0).is_whole);
  EXPECT_TRUE(rows.reads()[0].axes->at(1).is_whole);
  EXPECT_EQ(rows.writes()[0].axes->at(0).letters, "");
}

}  // namespace
}  // namespace giro::detail
