#include <giro/kernels/matmul.h>

#include <vector>

#include "tests/kernels/declined.h"
#include "tests/kernels/op_test.h"
#include "tests/kernels/precisions.h"
#include "tests/support/tensor_ops.h"

namespace giro {
namespace {

using test::Array, test::Expected, test::kLeafAlignment, test::Tensors;

struct MatmulCase {
  Shape a, b;
  MatmulOptions options = {};

  std::string name() const {
    return fmt::format("{}{} times {}{}", to_string(a), options.transpose_a ? "^T" : "", to_string(b),
                       options.transpose_b ? "^T" : "");
  }
  Shape out() const { return matmul_shape(a, b, options); }
};

// Each case of matrices (.., M, K) and (.., K, N) with all combinations of plain and transposed operands.
std::vector<MatmulCase> with_transposes(const std::vector<MatmulCase>& plain) {
  const auto transposed = [](const Shape& shape) {
    std::vector<std::int64_t> sizes(shape.begin(), shape.end());
    if (sizes.size() > 1) std::swap(sizes[sizes.size() - 1], sizes[sizes.size() - 2]);
    return Shape(sizes);
  };
  std::vector<MatmulCase> all;
  for (const MatmulCase& one : plain) {
    for (const bool a : {false, true}) {
      for (const bool b : {false, true}) {
        all.push_back({a ? transposed(one.a) : one.a, b ? transposed(one.b) : one.b, {a, b}});
      }
    }
  }
  return all;
}

const std::vector<MatmulCase> kMatmulCases = {
    {{1, 1}, {1, 1}},
    {{3, 5}, {5, 7}},
    {{4, 3, 5}, {4, 5, 2}},
    {{65, 33}, {33, 17}},
    {{3, 1, 9}, {3, 9, 1}},
    // Broadcast along one axis, along another axis for each operand, and along an axis that an operand lacks.
    {{1, 3, 5}, {4, 5, 2}},
    {{4, 3, 5}, {5, 2}},
    {{3, 5}, {4, 5, 2}},
    {{2, 1, 3, 4}, {3, 4, 5}},
    {{2, 3, 2, 4}, {2, 1, 4, 3}},
    {{3, 1, 2, 2, 4}, {3, 2, 1, 4, 3}},
    {{2, 1, 3, 1, 2, 4}, {2, 1, 3, 4, 3}},
    {{1, 1, 2, 4}, {1, 4, 3}},
    // Vectors.
    {{5}, {5}},
    {{5}, {5, 3}},
    {{3, 5}, {5}},
    {{5}, {2, 5, 3}},
    {{2, 3, 5}, {5}},
    // Nothing to multiply, or nothing to compute.
    {{2, 3, 0}, {0, 4}},
    {{0, 3, 5}, {5, 4}},
    {{2, 0, 5}, {2, 5, 4}},
    {{3, 5}, {5, 0}},
    {{0}, {0}},
};

class MatmulTest : public test::OpTest {
 protected:
  Expected expected(const MatmulCase& of, const Array& a, const Array& b, Precision precision = Precision::f32) const {
    const auto [m, n, k] = sizes(of);
    Expected out;
    const Shape shape = of.out();
    std::vector<std::int64_t> batch(shape.begin(), shape.end());
    batch.resize(batch.size() - (of.a.rank() > 1) - (of.b.rank() > 1));
    const std::int64_t count = Shape(batch).count();
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t in_a = matrix(of.a, batch, i) * m * k, in_b = matrix(of.b, batch, i) * k * n;
      for (std::int64_t row = 0; row < m; ++row) {
        for (std::int64_t column = 0; column < n; ++column) {
          double sum = 0, magnitude = 0;
          for (std::int64_t q = 0; q < k; ++q) {
            const bool ta = of.options.transpose_a && of.a.rank() > 1, tb = of.options.transpose_b && of.b.rank() > 1;
            const double term = a.values[static_cast<std::size_t>(in_a + (ta ? q * m + row : row * k + q))] *
                                b.values[static_cast<std::size_t>(in_b + (tb ? column * k + q : q * n + column))];
            sum += term;
            magnitude += std::abs(term);
          }
          out.add(sum, test::sum_tolerance(k, magnitude) + test::factor_error(precision, magnitude));
        }
      }
    }
    return out;
  }

  void check_all(const std::vector<MatmulCase>& all, DType dtype = DType::f32, Precision precision = Precision::f32) {
    for (const MatmulCase& of : all) {
      const Array a = random_.uniform(of.a, -1, 1, dtype), b = random_.uniform(of.b, -1, 1, dtype);
      const Expected y = expected(of, a, b, precision);
      for (const DType stored : {DType::f32, dtype}) {
        check({.name = fmt::format("{}, {} to {}", of.name(), name_of(precision), name_of(stored)),
               .inputs = {a, b},
               .outputs = {{stored, of.out(), {}}},
               .run = [=](const Tensors& out, const Tensors& in,
                          const Stream& s) { matmul(out[0], in[0], in[1], of.options, math_mode_of(precision), s); },
               .expected = {y.stored_as(stored)},
               .alignment = kLeafAlignment});
        if (stored == dtype) break;
      }
    }
  }

 private:
  struct Sizes {
    std::int64_t m, n, k;
  };
  static Sizes sizes(const MatmulCase& of) {
    const bool ta = of.options.transpose_a, tb = of.options.transpose_b;
    return {of.a.rank() > 1 ? of.a[ta ? -1 : -2] : 1, of.b.rank() > 1 ? of.b[tb ? -2 : -1] : 1,
            of.a.rank() > 1 ? of.a[ta ? -2 : -1] : of.a[0]};
  }
  // The index of the operand's matrix in product i.
  static std::int64_t matrix(const Shape& operand, const std::vector<std::int64_t>& batch, std::int64_t i) {
    std::int64_t number = 0, step = 1;
    for (std::size_t axis = 0; axis < batch.size(); ++axis) {
      const std::int64_t size = batch[batch.size() - 1 - axis], place = i % size;
      i /= size;
      if (axis + 2 >= operand.rank()) continue;
      const std::int64_t own = operand[-3 - static_cast<int>(axis)];
      if (own > 1) number += place * step;
      step *= own;
    }
    return number;
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, MatmulTest, test::kDevices, test::device_name);

TEST_P(MatmulTest, ShapesAndTransposes) { check_all(with_transposes(kMatmulCases)); }

TEST_P(MatmulTest, OtherPrecisions) {
  for (const Precision precision : test::other_precisions(device())) {
    check_all(
        with_transposes({{{3, 5}, {5, 7}}, {{4, 3, 5}, {4, 5, 2}}, {{2, 3, 2, 4}, {2, 1, 4, 3}}, {{2, 0}, {0, 3}}}),
        compute_dtype(precision), precision);
  }
}

// More work than one part takes on the CPU, split by matrices and by rows.
TEST_P(MatmulTest, SplitsLargeBatches) {
  if (device().is_cuda()) return;  // a GPU has no such parts
  check_all(
      {{{37, 64, 80}, {37, 80, 96}}, {{3, 301, 130}, {130, 150}, {}}, {{2, 130, 400}, {130, 210}, {true, false}}});
}

TEST_P(MatmulTest, AcceptsUnalignedViews) {
  const Array a = random_.integers({3, 6, 8}, -4, 4, DType::f32), b = random_.integers({3, 8, 12}, -4, 4, DType::f32);
  const MatmulCase of{a.shape, b.shape};
  Expected exact = expected(of, a, b);
  std::fill(exact.tolerances.begin(), exact.tolerances.end(), 0.0);
  check({.name = "by an element",
         .inputs = {a, b},
         .outputs = {{DType::f32, of.out(), {}}},
         .run = [](const Tensors& out, const Tensors& in,
                   const Stream& s) { matmul(out[0], in[0], in[1], {}, MathMode::f32, s); },
         .expected = {exact}});
}

TEST_P(MatmulTest, KeepsNaNAndInfinities) {
  const MatmulCase of{{2, 3, 4}, {4, 5}};
  Array a = random_.uniform(of.a), b = random_.uniform(of.b);
  a.values[13] = test::kNaN;
  a.values[0] = test::kInfinity;
  for (double& value : b.values) value = std::abs(value) + 0.5;
  b.values[19] = 0;
  Expected y = expected(of, a, b);
  for (std::size_t i = 0; i < y.values.size(); ++i) {
    if (std::isinf(y.values[i])) y.tolerances[i] = 0;
  }
  check({.name = of.name(),
         .inputs = {a, b},
         .outputs = {{DType::f32, of.out(), {}}},
         .run = [](const Tensors& out, const Tensors& in,
                   const Stream& s) { matmul(out[0], in[0], in[1], {}, MathMode::f32, s); },
         .expected = {y},
         .alignment = kLeafAlignment});
}

TEST_P(MatmulTest, ShapeRejectsMismatches) {
  const Shape a{2, 4, 7}, b{7, 3};
  const auto expect_rejected = [&](const std::string& words, const Shape& left, const Shape& right,
                                   const MatmulOptions& options = {}) {
    expect_error(ErrorCode::shape_mismatch, {"matmul", words}, [&] { (void)matmul_shape(left, right, options); });
  };
  expect_rejected("a is (2, 4, 7), b is (6, 3)", a, {6, 3});
  expect_rejected("7 and 6", a, {6, 3});
  expect_rejected("(2, 4, 7) transposed", a, b, {true, false});
  expect_rejected("4 and 7", a, b, {true, false});
  expect_rejected("axis 3 from the end is 2 and 3", a, {3, 7, 3});
  expect_rejected("one axis", {}, b);
}

// If cuBLASLt has no algorithm, giro's own kernel computes the same.
class DeclinedMatmulTest : public test::DeclinedTest<MatmulTest> {};
INSTANTIATE_TEST_SUITE_P(Devices, DeclinedMatmulTest, ::testing::Values(Device::Kind::cuda), test::device_name);

TEST_P(DeclinedMatmulTest, ShapesAndTransposes) { check_all(with_transposes(kMatmulCases)); }
// With several tiles of each shape, quads, and sums that are split.
TEST_P(DeclinedMatmulTest, Tiles) {
  check_all(with_transposes({{{2, 65, 12}, {2, 12, 68}}, {{3, 132, 8}, {3, 8, 32}}, {{2, 4, 260}, {2, 260, 36}}}));
}
TEST_P(DeclinedMatmulTest, OtherPrecisions) {
  for (const Precision precision : test::other_precisions(device())) {
    check_all(with_transposes({{{4, 3, 5}, {4, 5, 2}}, {{2, 4, 260}, {260, 8}}}), compute_dtype(precision), precision);
  }
}

}  // namespace
}  // namespace giro
