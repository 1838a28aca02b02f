#include "runtime/program/dimensions.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"

namespace giro::detail {
namespace {

Tensor of(const Shape& shape) {
  static float element;
  return {&element, DType::f32, shape, Device::cpu()};
}

using Shapes = std::vector<Shape>;
std::optional<std::string> checked(const char* line, const Shapes& reads, const Shapes& writes) {
  std::vector<Tensor> in, out;
  for (const Shape& shape : reads) in.push_back(of(shape));
  for (const Shape& shape : writes) out.push_back(of(shape));
  return unfitting(line, in, out);
}

TEST(Dimensions, OneLetterHasOneSize) {
  EXPECT_EQ(checked("bi, io, o -> bo", {{2, 3}, {3, 4}, {4}}, {{2, 4}}), std::nullopt);
  EXPECT_EQ(checked("bi, io, o -> bo", {{2, 3}, {5, 4}, {4}}, {{2, 4}}),
            "i is 5 in f32(5, 4) on cpu, and i is 3 in f32(2, 3) on cpu");
  EXPECT_EQ(checked("bi, io, o -> bo", {{2, 3}, {3, 4}, {4}}, {{2, 4, 1}}),
            "f32(2, 4, 1) on cpu has 3 axes, expected those of bo");
  EXPECT_EQ(checked("r[c], r, -> , r[c]", {{2, 3}, {2}, {}}, {{}, {2, 3}}), std::nullopt);
  EXPECT_NE(checked("r[c], r, -> , r[c]", {{2, 3}, {2}, {}}, {{1}, {2, 3}}), std::nullopt);
}

TEST(Dimensions, AnOmittedArgumentFits) {
  EXPECT_EQ(unfitting("bi, io, o -> bo", std::vector{of({2, 3}), of({3, 4}), Tensor()}, {of({2, 4})}), std::nullopt);
  test::expect_error(ErrorCode::invalid_argument, {"bi, io, o -> bo", "3 arguments", "has 2"}, [&] {
    (void)checked("bi, io, o -> bo", {{2, 3}, {3, 4}}, {{2, 4}});
  });
}

TEST(Dimensions, OpsMayHaveNoArgumentsOnOneSide) {
  EXPECT_EQ(checked(" -> r", {}, {{3}}), std::nullopt);
  EXPECT_EQ(checked("r -> ", {{3}}, {}), std::nullopt);
  EXPECT_NE(checked(" -> r", {}, {{3, 3}}), std::nullopt);
  test::expect_error(ErrorCode::invalid_argument, {"bi, io", "->"}, [&] { (void)checked("bi, io", {{3}}, {}); });
}

TEST(Dimensions, CompoundAxesAreProducts) {
  const char* const line = "n[h][w](gc), (go)[k][l]c, (go) -> n[p][q](go)";
  EXPECT_EQ(checked(line, {{1, 5, 5, 6}, {8, 3, 3, 3}, {8}}, {{1, 5, 5, 8}}), std::nullopt);
  // Six channels in groups of four.
  EXPECT_NE(checked(line, {{1, 5, 5, 6}, {8, 3, 3, 4}, {8}}, {{1, 5, 5, 8}}), std::nullopt);
  // Two groups of seven filters.
  EXPECT_NE(checked(line, {{1, 5, 5, 6}, {7, 3, 3, 3}, {7}}, {{1, 5, 5, 7}}), std::nullopt);
  EXPECT_EQ(checked("(ab) -> ab", {{6}}, {{2, 3}}), std::nullopt);
  EXPECT_NE(checked("(ab) -> ab", {{6}}, {{2, 4}}), std::nullopt);
}

TEST(Dimensions, AnyAxesBroadcast) {
  EXPECT_EQ(checked("...mk, ...kn -> ...mn", {{7, 1, 2, 3}, {5, 3, 4}}, {{7, 5, 2, 4}}), std::nullopt);
  EXPECT_EQ(checked("...mk, ...kn -> ...mn", {{2, 3}, {3, 4}}, {{2, 4}}), std::nullopt);
  EXPECT_NE(checked("...mk, ...kn -> ...mn", {{7, 2, 3}, {5, 3, 4}}, {{7, 2, 4}}), std::nullopt);
  EXPECT_NE(checked("...mk, ...kn -> ...mn", {{3}, {3, 4}}, {{4}}), std::nullopt);
  // A result does not broadcast.
  EXPECT_NE(checked("...mk, ...kn -> ...mn", {{7, 1, 2, 3}, {5, 3, 4}}, {{1, 5, 2, 4}}), std::nullopt);
  EXPECT_NE(checked("...mk, ...kn -> ...mn", {{7, 1, 2, 3}, {5, 3, 4}}, {{5, 2, 4}}), std::nullopt);
  EXPECT_EQ(checked("a[n]..., r -> ar...", {{2, 9, 4, 5}, {3}}, {{2, 3, 4, 5}}), std::nullopt);
  EXPECT_EQ(checked("_, r -> _", {{2, 9, 4, 5}, {3}}, {{}}), std::nullopt);
}

}  // namespace
}  // namespace giro::detail
