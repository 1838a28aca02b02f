
#include "kernels/ops.h"
#include "tests/kernels/declined.h"
#include "tests/kernels/op_test.h"
#include "tests/kernels/precisions.h"
#include "tests/support/tensor_ops.h"

namespace giro {
namespace {

using test::Array, test::Expected, test::kLeafAlignment, test::kUnit, test::Tensors;

struct Sizes {
  std::int64_t batch, in, out;
};
const std::vector<Sizes> kSizes = {{1, 1, 1},   {1, 784, 10}, {32, 784, 10}, {7, 13, 5},
                                   {3, 1, 17},  {1, 129, 1},  {64, 31, 33},  {5, 257, 3},
                                   {2, 3, 101}, {1021, 3, 2}, {1, 1, 997},   {128, 64, 256}};

std::string to_string(const Sizes& n) { return fmt::format("batch {}, {} to {}", n.batch, n.in, n.out); }

// out[i, j] = sum over k of a(i, k) b(k, j), plus first(j).
template <class A, class B, class First>
Expected product(std::int64_t rows, std::int64_t inner, std::int64_t columns, A a, B b, First first,
                 Precision precision = Precision::f32) {
  Expected out;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      double sum = first(j), magnitude = std::abs(sum);
      for (std::int64_t k = 0; k < inner; ++k) {
        const double term = a(i, k) * b(k, j);
        sum += term;
        magnitude += std::abs(term);
      }
      out.add(sum, test::sum_tolerance(inner, magnitude) + test::factor_error(precision, magnitude));
    }
  }
  return out;
}

using Values = std::vector<double>;

// x w + b; b may be empty.
Expected linear(const Sizes& n, const Values& x, const Values& w, const Values& b,
                Precision precision = Precision::f32) {
  return product(
      n.batch, n.in, n.out, [&](auto r, auto i) { return x[r * n.in + i]; },
      [&](auto i, auto o) { return w[i * n.out + o]; }, [&](auto o) { return b.empty() ? 0.0 : b[o]; }, precision);
}

class DenseTest : public test::OpTest {
 protected:
  void check_forward(const std::vector<Sizes>& all);
  void check_backward(const std::vector<Sizes>& all);
  void check_forward(const Sizes& n, Precision precision);
  void check_backward(const Sizes& n, Precision precision);
};
INSTANTIATE_TEST_SUITE_P(Devices, DenseTest, test::kDevices, test::device_name);

void DenseTest::check_forward(const std::vector<Sizes>& all) {
  for (const Sizes& n : all) {
    const Array x = random_.uniform({n.batch, n.in}), b = random_.uniform({n.out});
    const double range = std::sqrt(3.0 / static_cast<double>(n.in));
    const Array w = random_.uniform({n.in, n.out}, -range, range);
    for (const bool with_bias : {true, false}) {
      check({.name = fmt::format("{}, {} bias", to_string(n), with_bias ? "with" : "no"),
             .inputs = {x, w, b},
             .outputs = {{DType::f32, {n.batch, n.out}, {}}},
             .run = [=](const Tensors& out, const Tensors& in,
                        const Stream& s) { dense(out[0], in[0], in[1], with_bias ? in[2] : Tensor{}, s); },
             .expected = {linear(n, x.values, w.values, with_bias ? b.values : Values{})},
             .alignment = kLeafAlignment});
    }
  }
}

// Small integers, whose sums are exact in any order.
TEST_P(DenseTest, AcceptsUnalignedViews) {
  const Sizes n{6, 8, 12};
  const auto integers = [&](const Shape& shape) { return random_.integers(shape, -4, 4, DType::f32); };
  const auto exact = [](Expected expected) {
    std::fill(expected.tolerances.begin(), expected.tolerances.end(), 0.0);
    return expected;
  };
  const Array x = integers({n.batch, n.in}), w = integers({n.in, n.out}), b = integers({n.out});
  const Array dz = integers({n.batch, n.out});
  const auto at = [](const Array& matrix) {
    return [&matrix](auto row, auto column) { return matrix.values[row * matrix.shape[1] + column]; };
  };
  const auto transposed = [](const Array& matrix) {
    return [&matrix](auto row, auto column) { return matrix.values[column * matrix.shape[1] + row]; };
  };
  const auto zero = [](auto) { return 0.0; };
  check({.name = "forward",
         .inputs = {x, w, b},
         .outputs = {{DType::f32, {n.batch, n.out}, {}}},
         .run = [](const Tensors& out, const Tensors& in, const Stream& s) { dense(out[0], in[0], in[1], in[2], s); },
         .expected = {exact(linear(n, x.values, w.values, b.values))}});
  check({.name = "backward",
         .inputs = {dz, x, w},
         .outputs = {{DType::f32, x.shape, {}}, {DType::f32, w.shape, {}}, {DType::f32, b.shape, {}}},
         .run = [](const Tensors& out, const Tensors& in,
                   const Stream& s) { dense_backward(out[0], out[1], out[2], in[0], in[1], in[2], s); },
         .expected = {exact(product(n.batch, n.out, n.in, at(dz), transposed(w), zero)),
                      exact(product(n.in, n.batch, n.out, transposed(x), at(dz), zero)),
                      exact(product(
                          1, n.batch, n.out, [](auto, auto) { return 1.0; }, at(dz), zero))}});
}

void DenseTest::check_backward(const std::vector<Sizes>& all) {
  for (const Sizes& n : all) {
    SCOPED_TRACE(to_string(n));
    const Array x = random_.uniform({n.batch, n.in}), w = random_.uniform({n.in, n.out});
    const Array dz = random_.uniform({n.batch, n.out});
    const auto zero = [](auto) { return 0.0; };
    const Expected dx = product(
        n.batch, n.out, n.in, [&](auto r, auto o) { return dz.values[r * n.out + o]; },
        [&](auto o, auto i) { return w.values[i * n.out + o]; }, zero);
    const Expected dw = product(
        n.in, n.batch, n.out, [&](auto i, auto r) { return x.values[r * n.in + i]; },
        [&](auto r, auto o) { return dz.values[r * n.out + o]; }, zero);
    const Expected db = product(
        1, n.batch, n.out, [](auto, auto) { return 1.0; }, [&](auto r, auto o) { return dz.values[r * n.out + o]; },
        zero);
    const Array dx_out{DType::f32, x.shape, {}}, dw_out{DType::f32, w.shape, {}}, db_out{DType::f32, {n.out}, {}};

    const auto check_wanted = [&](bool wants_dx, bool wants_dw, bool wants_db) {
      test::OpCase op{.name = fmt::format("dx {}, dw {}, db {}", wants_dx, wants_dw, wants_db),
                      .inputs = {dz, x, w},
                      .outputs = {},
                      .run =
                          [=](const Tensors& out, const Tensors& in, const Stream& s) {
                            auto next = out.begin();
                            const Tensor of_x = wants_dx ? *next++ : Tensor{}, of_w = wants_dw ? *next++ : Tensor{};
                            dense_backward(of_x, of_w, wants_db ? *next : Tensor{}, in[0], in[1], in[2], s);
                          },
                      .expected = {},
                      .alignment = kLeafAlignment};
      const auto want = [&](bool is_wanted, const Array& out, const Expected& expected) {
        if (!is_wanted) return;
        op.outputs.push_back(out);
        op.expected.push_back(expected);
      };
      want(wants_dx, dx_out, dx);
      want(wants_dw, dw_out, dw);
      want(wants_db, db_out, db);
      return check(op);
    };
    const auto gradients = check_wanted(true, true, true);
    check_wanted(false, true, true);
    check_wanted(false, true, false);
    check_wanted(true, false, false);
    check_wanted(false, false, true);
    const Array before = random_.uniform(w.shape);
    Expected joined = dw;
    for (std::size_t i = 0; i < joined.values.size(); ++i) {
      joined.values[i] += before.values[i];
      joined.tolerances[i] += kUnit * std::abs(joined.values[i]);
    }
    for (const bool with_db : {true, false}) {
      check({.name = "dw joins another",
             .inputs = {dz, x},
             .outputs = {{DType::f32, w.shape, before.values}, db_out},
             .run =
                 [=](const Tensors& out, const Tensors& in, const Stream& s) {
                   queue(ops::DenseBackwardAdd{out[0], with_db ? out[1] : Tensor(), in[0], in[1]}, s);
                   if (!with_db) dense_backward({}, {}, out[1], in[0], in[1], Tensor(out[0]), s);
                 },
             .expected = {joined, db},
             .alignment = kLeafAlignment});
    }

    if (n.batch * n.in * n.out > 2500) continue;
    const Values b(static_cast<std::size_t>(n.out), 0.5);
    test::expect_finite_differences("dx", gradients[0], dx, x.values, [&](const Values& v) {
      return test::contracted(dz.values, linear(n, v, w.values, b).values);
    });
    test::expect_finite_differences("dw", gradients[1], dw, w.values, [&](const Values& v) {
      return test::contracted(dz.values, linear(n, x.values, v, b).values);
    });
    test::expect_finite_differences("db", gradients[2], db, b, [&](const Values& v) {
      return test::contracted(dz.values, linear(n, x.values, w.values, v).values);
    });
  }
}

// Inputs are rounded to the dtype first, so the products are exact in f32. The product is stored in 16 bits; so is the
// sum with the bias if the library adds it in a separate pass.
void DenseTest::check_forward(const Sizes& n, Precision precision) {
  const DType dtype = compute_dtype(precision);
  const double range = std::sqrt(3.0 / static_cast<double>(n.in));
  const Array x = random_.uniform({n.batch, n.in}, -1, 1, dtype),
              w = random_.uniform({n.in, n.out}, -range, range, dtype);
  for (const DType bias_dtype : {DType::f32, dtype}) {
    const Array b = random_.uniform({n.out}, -1, 1, bias_dtype);
    for (const bool with_bias : {true, false}) {
      Expected y = linear(n, x.values, w.values, {}, precision).stored_as(dtype, with_bias);
      for (std::size_t i = 0; with_bias && i < y.values.size(); ++i) {
        y.values[i] += b.values[i % b.values.size()];
        y.tolerances[i] += 4 * kUnit;
      }
      check({.name = fmt::format("{}, {}, bias {}", to_string(n), name_of(precision),
                                 with_bias ? name_of(bias_dtype) : "none"),
             .inputs = {x, w, b},
             .outputs = {{dtype, {n.batch, n.out}, {}}},
             .run =
                 [=](const Tensors& out, const Tensors& in, const Stream& s) {
                   dense(out[0], in[0], in[1], with_bias ? in[2] : Tensor{}, math_mode_of(precision), s);
                 },
             .expected = {y.stored_as(dtype)},
             .alignment = kLeafAlignment});
    }
  }
}

// dx is stored in the dtype; dw and db are computed in f32 and stored in the dtype or in f32.
void DenseTest::check_backward(const Sizes& n, Precision precision) {
  const DType dtype = compute_dtype(precision);
  const Array x = random_.uniform({n.batch, n.in}, -1, 1, dtype), w = random_.uniform({n.in, n.out}, -1, 1, dtype);
  const Array dz = random_.uniform({n.batch, n.out}, -1, 1, dtype);
  const auto zero = [](auto) { return 0.0; };
  const Expected dx = product(
      n.batch, n.out, n.in, [&](auto r, auto o) { return dz.values[r * n.out + o]; },
      [&](auto o, auto i) { return w.values[i * n.out + o]; }, zero, precision);
  const Expected dw = product(
      n.in, n.batch, n.out, [&](auto i, auto r) { return x.values[r * n.in + i]; },
      [&](auto r, auto o) { return dz.values[r * n.out + o]; }, zero, precision);
  const Expected db = product(
      1, n.batch, n.out, [](auto, auto) { return 1.0; }, [&](auto r, auto o) { return dz.values[r * n.out + o]; },
      zero);
  for (const DType of_weights : {DType::f32, dtype}) {
    const Array dx_out{dtype, x.shape, {}}, dw_out{of_weights, w.shape, {}}, db_out{of_weights, {n.out}, {}};
    const std::string name = fmt::format("{}, {}, dw {}", to_string(n), name_of(precision), name_of(of_weights));
    check({.name = name,
           .inputs = {dz, x, w},
           .outputs = {dx_out, dw_out, db_out},
           .run =
               [=](const Tensors& out, const Tensors& in, const Stream& s) {
                 dense_backward(out[0], out[1], out[2], in[0], in[1], in[2], math_mode_of(precision), s);
               },
           .expected = {dx.stored_as(dtype), dw.stored_as(of_weights), db.stored_as(of_weights)},
           .alignment = kLeafAlignment});
    check({.name = name + ", db alone",
           .inputs = {dz, x, w},
           .outputs = {db_out},
           .run =
               [=](const Tensors& out, const Tensors& in, const Stream& s) {
                 dense_backward({}, {}, out[0], in[0], in[1], in[2], math_mode_of(precision), s);
               },
           .expected = {db.stored_as(of_weights)},
           .alignment = kLeafAlignment});
  }
}

const std::vector<Sizes> kPrecisionSizes = {{1, 1, 1},   {7, 13, 5},    {3, 1, 17},
                                            {1, 129, 1}, {16, 784, 10}, {35, 34, 33}};

TEST_P(DenseTest, OtherPrecisions) {
  for (const Precision precision : test::other_precisions(device())) {
    for (const Sizes& n : kPrecisionSizes) {
      check_forward(n, precision);
      check_backward(n, precision);
    }
  }
}

// 1 + 2^-12 is 1 in TF32, whether rounded or truncated.
TEST_P(DenseTest, Tf32IsUsedOnlyOnRequest) {
  const bool has_tf32 = test::computes_in(Precision::tf32, device());
  // Enough outputs that a GPU uses its library.
  const Array x{DType::f32, {16, 16}, Values(256, 1 + 0x1p-12)}, w{DType::f32, {16, 32}, Values(512, 1)};
  for (const bool is_tf32 : {true, false}) {
    const Expected y{Values(512, is_tf32 && has_tf32 ? 16 : 16 * (1 + 0x1p-12)), Values(512, 0)};
    check(
        {.name = is_tf32 ? "tf32" : "f32",
         .inputs = {x, w},
         .outputs = {{DType::f32, {16, 32}, {}}},
         .run = [=](const Tensors& out, const Tensors& in,
                    const Stream& s) { dense(out[0], in[0], in[1], {}, is_tf32 ? MathMode::tf32 : MathMode::f32, s); },
         .expected = {y},
         .alignment = kLeafAlignment});
  }
}

TEST_P(DenseTest, Forward) { check_forward(kSizes); }
TEST_P(DenseTest, Backward) { check_backward(kSizes); }
TEST_P(DenseTest, SplitsAmongThreads) {
  if (device().is_cuda()) return;
  check_forward({{700, 40, 600}});
  check_backward({{700, 40, 600}});
}

TEST_P(DenseTest, KeepsNaNAndInfinities) {
  for (const Sizes& n : kSizes) {
    Array x = random_.uniform({n.batch, n.in}), w = random_.uniform({n.in, n.out}), b = random_.uniform({n.out});
    x.values.back() = test::kNaN;
    b.values.front() = -test::kInfinity;
    b.values.back() = test::kNaN;
    const Expected y = linear(n, x.values, w.values, b.values).with_exact_infinities();
    check({.name = to_string(n),
           .inputs = {x, w, b},
           .outputs = {{DType::f32, {n.batch, n.out}, {}}},
           .run = [](const Tensors& out, const Tensors& in, const Stream& s) { dense(out[0], in[0], in[1], in[2], s); },
           .expected = {y},
           .alignment = kLeafAlignment});
  }
}

// If cuBLASLt has no algorithm, giro's own kernel computes the same.
class DeclinedDenseTest : public test::DeclinedTest<DenseTest> {};
INSTANTIATE_TEST_SUITE_P(Devices, DeclinedDenseTest, ::testing::Values(Device::Kind::cuda), test::device_name);

// The larger ones span several of the kernel's tiles, or end exactly at a tile's edge. Sums of at least 256 terms are
// split.
const std::vector<Sizes> kSmallSizes = {{1, 1, 1},    {7, 13, 5},   {3, 1, 17},  {1, 129, 1}, {35, 34, 33},
                                        {65, 12, 64}, {129, 7, 32}, {5, 300, 3}, {260, 4, 8}};
TEST_P(DeclinedDenseTest, Forward) { check_forward(kSmallSizes); }
TEST_P(DeclinedDenseTest, Backward) { check_backward(kSmallSizes); }
TEST_P(DeclinedDenseTest, OtherPrecisions) {
  for (const Precision precision : test::other_precisions(device())) {
    check_forward({7, 13, 5}, precision);
    check_forward({4, 260, 8}, precision);
    check_backward({35, 34, 33}, precision);
    check_backward({260, 4, 8}, precision);
  }
}

// More shapes than the cache of primitives holds (kernels/cpu/one_dnn.h).
TEST_P(DenseTest, ManyShapesUseTheirOwnPlans) {
  for (int round = 0; round < 2; ++round) {
    for (std::int64_t n = 17; n < 17 + 70; ++n) {
      const Tensor x = tensor({2, n}), w = tensor({n, n}), y = tensor({2, n});
      from_host(x, std::vector<float>(2 * n, 1), stream());
      from_host(w, std::vector<float>(n * n, 3), stream());
      dense(y, x, w, Tensor(), stream());
      ASSERT_EQ(to_host<float>(y, stream()), std::vector<float>(2 * n, 3.0f * static_cast<float>(n)));
    }
  }
}

TEST_P(DenseTest, NoRowsAddNothing) {
  const Tensor dw = tensor({7, 3}), db = tensor({3});
  from_host(dw, std::vector<float>(21, 5), stream());
  from_host(db, std::vector<float>(3, 5), stream());
  queue(ops::DenseBackwardAdd{dw, db, tensor({0, 3}), tensor({0, 7})}, stream());
  EXPECT_EQ(to_host<float>(dw, stream()), std::vector<float>(21, 5));
  EXPECT_EQ(to_host<float>(db, stream()), std::vector<float>(3, 0));
}

}  // namespace
}  // namespace giro
