#include <giro/kernels/nn/einsum.h>

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include <giro/kernels/nn/functional.h>

#include "tests/kernels/nn/gradient_test.h"

namespace giro::nn {
namespace {

using test::Array;

class EinsumTest : public GradientTest {
 protected:
  // Computes it by loops over all axes. `spelled` is the equation with letters in place of "..." and an explicit
  // result.
  static Array by_loops(const std::string& spelled, const std::vector<Array>& operands) {
    std::vector<std::string> names(1);
    const std::size_t arrow = spelled.find("->");
    for (const char c : spelled.substr(0, arrow)) {
      if (c == ',') {
        names.emplace_back();
      } else {
        names.back() += c;
      }
    }
    const std::string result = spelled.substr(arrow + 2);
    std::map<char, std::int64_t> sizes, place;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      for (std::size_t axis = 0; axis < names[i].size(); ++axis) {
        std::int64_t& size = sizes[names[i][axis]];
        const std::int64_t own = operands[i].shape.begin()[axis];
        if (size == 0 || size == 1) size = own;
      }
    }
    std::vector<std::int64_t> out;
    for (const char label : result) out.push_back(sizes[label]);
    Array y{DType::f32, Shape(out), Doubles(static_cast<std::size_t>(Shape(out).count()))};
    std::int64_t count = 1;
    for (const auto& [label, size] : sizes) count *= size;
    for (std::int64_t i = 0; i < count; ++i) {
      std::int64_t rest = i;
      for (const auto& [label, size] : sizes) place[label] = rest % size, rest /= size;
      double term = 1;
      for (std::size_t k = 0; k < operands.size(); ++k) {
        std::int64_t at = 0;
        for (std::size_t axis = 0; axis < names[k].size(); ++axis) {
          const std::int64_t size = operands[k].shape.begin()[axis];
          at = at * size + (size == 1 ? 0 : place[names[k][axis]]);
        }
        term *= operands[k].values[static_cast<std::size_t>(at)];
      }
      std::int64_t at = 0;
      for (const char label : result) at = at * sizes[label] + place[label];
      y.values[static_cast<std::size_t>(at)] += term;
    }
    return y;
  }

  // Small whole numbers, so that sums are exact in any order.
  void expect_as_by_loops(const std::string& equation, const std::string& spelled, const std::vector<Shape>& shapes) {
    SCOPED_TRACE(equation);
    std::vector<Array> arrays;
    Vars operands;
    for (const Shape& shape : shapes) {
      arrays.push_back(random_.integers(shape, -3, 3, DType::f32));
      operands.emplace_back(upload(arrays.back()), stream());
    }
    const Array expected = by_loops(spelled, arrays);
    const Var y = einsum(equation, operands);
    EXPECT_EQ(y.shape(), expected.shape);
    EXPECT_EQ(read(y), expected.values);
  }
  void expect_as_by_loops(const std::string& equation, const std::vector<Shape>& shapes) {
    expect_as_by_loops(equation, equation, shapes);
  }
};

TEST_P(EinsumTest, OneOperand) {
  expect_as_by_loops("ij->ji", {{3, 4}});
  expect_as_by_loops("ij->ij", {{3, 4}});
  expect_as_by_loops("bij->b", {{2, 3, 4}});
  expect_as_by_loops("bij->jb", {{2, 3, 4}});
  expect_as_by_loops("i->", {{5}});
  expect_as_by_loops("->", {{}});
  expect_as_by_loops("ba", "ba->ab", {{2, 3}});
  expect_as_by_loops("...ij->...ji", "abij->abji", {{2, 1, 3, 4}});
  expect_as_by_loops("i...->...", "iab->ab", {{2, 3, 4}});
}

TEST_P(EinsumTest, TwoOperands) {
  expect_as_by_loops("ij,jk->ik", {{3, 4}, {4, 5}});
  expect_as_by_loops("ji,jk->ik", {{4, 3}, {4, 5}});
  expect_as_by_loops("ij,kj->ki", {{3, 4}, {5, 4}});
  expect_as_by_loops("bij,bjk->bik", {{2, 3, 4}, {2, 4, 5}});
  expect_as_by_loops("bij,jk->bik", {{2, 3, 4}, {4, 5}});
  expect_as_by_loops("bij,bj->bi", {{2, 3, 4}, {2, 4}});
  expect_as_by_loops("bthd,bshd->bhts", {{2, 3, 2, 4}, {2, 5, 2, 4}});
  expect_as_by_loops("bhts,bshd->bthd", {{2, 2, 3, 5}, {2, 5, 2, 4}});
  expect_as_by_loops("abcd,cdef->abef", {{2, 2, 3, 4}, {3, 4, 2, 3}});
  expect_as_by_loops("abcd,dcef->fabe", {{2, 2, 3, 4}, {4, 3, 2, 3}});
  expect_as_by_loops("i,j->ij", {{3}, {4}});
  expect_as_by_loops("i,i->", {{3}, {3}});
  expect_as_by_loops("ij,ij->i", {{3, 4}, {3, 4}});
  expect_as_by_loops("ij,i->ji", {{3, 4}, {3}});
  // Axes of only one operand are summed first.
  expect_as_by_loops("aij,jkb->ik", {{2, 3, 4}, {4, 5, 2}});
  expect_as_by_loops("ij,kl->", {{3, 4}, {2, 3}});
  expect_as_by_loops(",ij->ij", {{}, {3, 4}});
  expect_as_by_loops(" i j , j k ", "ij,jk->ik", {{3, 4}, {4, 5}});
  expect_as_by_loops("Aj,jk", "Aj,jk->Ak", {{3, 4}, {4, 5}});
}

TEST_P(EinsumTest, Ellipses) {
  expect_as_by_loops("...ij,...jk->...ik", "abij,abjk->abik", {{2, 2, 3, 4}, {2, 2, 4, 5}});
  expect_as_by_loops("...ij,...jk->...ik", "abij,bjk->abik", {{2, 3, 3, 4}, {3, 4, 5}});
  expect_as_by_loops("...ij,...jk->...ik", "abij,abjk->abik", {{2, 1, 3, 4}, {1, 3, 4, 5}});
  expect_as_by_loops("...ij,jk->...ik", "abij,jk->abik", {{2, 2, 3, 4}, {4, 5}});
  expect_as_by_loops("...i,...i", "abi,bi->ab", {{2, 3, 4}, {1, 4}});
  expect_as_by_loops("i...,ij", "iab,ij->abj", {{2, 3, 4}, {2, 5}});
}

TEST_P(EinsumTest, ManyOperands) {
  expect_as_by_loops("ij,jk,kl->il", {{2, 3}, {3, 4}, {4, 5}});
  expect_as_by_loops("bi,bij,bj->b", {{2, 3}, {2, 3, 4}, {2, 4}});
  expect_as_by_loops("i,j,k->kji", {{2}, {3}, {4}});
}

TEST_P(EinsumTest, NothingToSum) {
  expect_as_by_loops("ij,jk->ik", {{2, 0}, {0, 3}});
  expect_as_by_loops("bij,bjk->bik", {{0, 2, 3}, {0, 3, 2}});
  expect_as_by_loops("ij->i", {{2, 0}});
}

TEST_P(EinsumTest, Dtypes) {
  const Doubles ones(4, 1);
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const Var x = value(dtype, {2, 2}, ones);
    EXPECT_EQ(einsum("ij->i", {x}).dtype(), dtype);
    EXPECT_EQ(einsum("ij,ij->i", {x, x}).dtype(), dtype);
    EXPECT_EQ(einsum("ij,jk->ik", {x, value(DType::f32, {2, 2}, ones)}).dtype(), DType::f32);
  }
  // The sum of products is rounded once: bf16 can represent 256 + 1 + 1, but not 257.
  const Var a = value(DType::bf16, {3}, {16, 1, 1}), b = value(DType::bf16, {3}, {16, 1, 1});
  EXPECT_EQ(read(einsum("i,i->", {a, b})), Doubles{258});
}

TEST_P(EinsumTest, Gradients) {
  const auto both = [&](const std::string& equation, const Shape& a, const Shape& b) {
    check(equation, {random_.uniform(a), random_.uniform(b)}, [&](const Vars& p) { return einsum(equation, p); });
  };
  check("bij->jb", {random_.uniform({2, 3, 2})}, [](const Vars& p) { return einsum("bij->jb", p); });
  both("bthd,bshd->bhts", {1, 2, 2, 3}, {1, 3, 2, 3});
  both("...ij,...jk->...ki", {2, 1, 2, 3}, {2, 3, 2});
  both("ij,ij->i", {2, 3}, {2, 3});
  both("aij,jkb->ik", {2, 2, 3}, {3, 2, 2});
}

TEST_P(EinsumTest, BadArguments) {
  const Var a = value(DType::f32, {2, 3}, Doubles(6, 1)), i = value(DType::i32, {2, 3}, Doubles(6, 1));
  const auto expect = [&](ErrorCode code, const std::string& equation, const Vars& operands,
                          std::initializer_list<std::string> words) {
    SCOPED_TRACE(equation);
    expect_error(code, {"einsum", '"' + equation + '"'}, [&] { (void)einsum(equation, operands); });
    expect_error(code, words, [&] { (void)einsum(equation, operands); });
  };
  expect(ErrorCode::shape_mismatch, "ij,jk->ik", {a, a}, {"axis j has size 2 in operand 1", "3 before"});
  expect(ErrorCode::shape_mismatch, "ijk->i", {a}, {"operand 0", "(2, 3)", "3 axes"});
  expect(ErrorCode::shape_mismatch, "i...jk->i", {a}, {"operand 0", "3 axes or more"});
  expect(ErrorCode::shape_mismatch, "i...,...->i...", {a, value(DType::f32, {2}, {1, 2})},
         {"axis 1 of \"...\" from the end has size 2", "3 before"});
  expect(ErrorCode::invalid_argument, "ij->i", {a, a}, {"expected 1 operands, found 2"});
  expect(ErrorCode::invalid_argument, "ii->i", {a}, {"axis i appears twice in operand 0"});
  expect(ErrorCode::invalid_argument, "ij->ii", {a}, {"axis i appears twice in the result"});
  expect(ErrorCode::invalid_argument, "ij->ik", {a}, {"no operand has the axis k"});
  expect(ErrorCode::invalid_argument, "i1->i", {a}, {"'1'", "letters"});
  expect(ErrorCode::invalid_argument, "i..->i", {a}, {"'.'"});
  expect(ErrorCode::invalid_argument, "ij->i->j", {a}, {"'-'"});
  expect(ErrorCode::invalid_argument, "i...->i", {a}, {"lacks the \"...\""});
  expect(ErrorCode::dtype_mismatch, "ij->ji", {i}, {"i32", "f32, bf16 or f16"});
  expect(ErrorCode::invalid_argument, "", {}, {"expected 1 operands, found 0"});
}

INSTANTIATE_TEST_SUITE_P(Devices, EinsumTest, test::kDevices, test::device_name);

}  // namespace
}  // namespace giro::nn
