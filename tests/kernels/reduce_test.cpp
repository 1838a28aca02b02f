
#include "tests/kernels/op_test.h"
#include "tests/support/tensor_ops.h"

namespace giro {
namespace {

using test::Array, test::Expected, test::kUnit, test::Tensors;

using Reduction = void (*)(const Tensor& out, const Tensor& x, const Stream& stream);

const Shape kReduceShapes[] = {{},     {1},        {2},       {17},        {256},    {1000},
                               {1025}, {7, 13, 3}, {32, 784}, {64, 16, 5}, {100003}, {1, 65537}};

class ReduceTest : public test::OpTest {
 protected:
  // On a GPU each length needs its own kernel, so only lengths that take different paths are tried there.
  std::vector<Shape> shapes() const {
    if (device().is_cuda()) return {{}, {17}, {7, 13, 3}, {100003}};
    return {std::begin(kReduceShapes), std::end(kReduceShapes)};
  }
  std::vector<std::int64_t> counts() const {
    if (device().is_cuda()) return {7, 1021};
    return {1, 2, 7, 16, 33, 1021, 70'001};
  }

  static DType dtype_of(Reduction reduction) { return reduction == &sum_of_squares ? DType::f64 : DType::f32; }

  void check_scalar(const std::string& name, Reduction reduction, const Array& x, double value, double tolerance) {
    check({.name = fmt::format("{} of {}", name, to_string(x.shape)),
           .inputs = {x},
           .outputs = {{dtype_of(reduction), {}, {}}},
           .run = [=](const Tensors& out, const Tensors& in, const Stream& s) { reduction(out[0], in[0], s); },
           .expected = {{{value}, {tolerance}}}});
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, ReduceTest, test::kDevices, test::device_name);

TEST_P(ReduceTest, SumAndMean) {
  for (const Shape& shape : shapes()) {
    for (const double low : {-1.0, 0.0}) {  // with and without cancellation
      const Array x = random_.uniform(shape, low, 1);
      double total = 0, magnitude = 0;
      for (const double value : x.values) total += value, magnitude += std::abs(value);
      const auto n = static_cast<double>(shape.count());
      const double tolerance = test::sum_tolerance(shape.count(), magnitude);
      check_scalar("sum", sum, x, total, tolerance);
      check_scalar("mean", mean, x, total / n, tolerance / n + 2 * kUnit * std::abs(total / n));
    }
  }
}

TEST_P(ReduceTest, SumOfEqualTermsDoesNotDrift) {
  const Array x{DType::f32, {1'000'003}, std::vector<double>(1'000'003, test::round_to(DType::f32, 0.1))};
  const double total = 1'000'003 * x.values[0];
  check_scalar("sum", sum, x, total, test::sum_tolerance(1'000'003, total));
}

TEST_P(ReduceTest, SumOfSquares) {
  for (const Shape& shape : shapes()) {
    const Array x = random_.uniform(shape, -2, 2);
    double total = 0;
    for (const double value : x.values) total += value * value;
    check_scalar("sum of squares", sum_of_squares, x, total, 1e-12 * total);
  }
}

TEST_P(ReduceTest, SquaresNeitherOverflowNorUnderflow) {
  for (const double size : {3e38, 1e20, 1e-25, 1.2e-38}) {
    Array x = random_.uniform({1000}, 0.99 * size, size);
    double total = 0;
    for (const double value : x.values) total += value * value;
    check_scalar(fmt::format("sum of squares of {}", size), sum_of_squares, x, total, 1e-12 * total);
  }
}

TEST_P(ReduceTest, NaNPropagatesToEachResult) {
  for (const std::int64_t count : counts()) {
    for (const std::int64_t place : {std::int64_t{0}, count / 3, count / 2, count - 1}) {
      Array x = random_.uniform({count});
      x.values[static_cast<std::size_t>(place)] = test::kNaN;
      const std::string at = fmt::format("with NaN at {}", place);
      check_scalar("sum " + at, sum, x, test::kNaN, 0);
      check_scalar("mean " + at, mean, x, test::kNaN, 0);
      check_scalar("sum of squares " + at, sum_of_squares, x, test::kNaN, 0);
    }
  }
}

TEST_P(ReduceTest, InfinityPassesThrough) {
  Array x = random_.uniform({1021});
  x.values[500] = test::kInfinity;
  check_scalar("sum", sum, x, test::kInfinity, 0);
  check_scalar("mean", mean, x, test::kInfinity, 0);
  check_scalar("sum of squares", sum_of_squares, x, test::kInfinity, 0);
  x.values[3] = -test::kInfinity;
  check_scalar("sum of both infinities", sum, x, test::kNaN, 0);
}

TEST_P(ReduceTest, EmptySumIsZeroAndEmptyMeanIsNaN) {
  const Array nothing{DType::f32, {0, 3}, {}};
  check_scalar("sum", sum, nothing, 0, 0);
  check_scalar("sum of squares", sum_of_squares, nothing, 0, 0);
}

Expected sums_of_rows(const Array& x) {
  const std::int64_t rows = x.shape[0], columns = x.shape[1];
  Expected sums;
  for (std::int64_t c = 0; c < columns; ++c) {
    double total = 0, magnitude = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      total += x.values[r * columns + c];
      magnitude += std::abs(x.values[r * columns + c]);
    }
    sums.add(total, test::sum_tolerance(rows, magnitude));
  }
  return sums;
}

TEST_P(ReduceTest, SumRows) {
  for (const Shape& shape : {Shape{1, 1}, Shape{1, 101}, Shape{1021, 1}, Shape{32, 10}, Shape{17, 13}, Shape{64, 256},
                             Shape{4099, 3}, Shape{3, 4099}, Shape{100003, 2}, Shape{0, 5}}) {
    const Array x = random_.uniform(shape);
    const Expected sums = sums_of_rows(x);
    check({.name = fmt::format("sum_rows {}", to_string(shape)),
           .inputs = {x},
           .outputs = {{DType::f32, {shape[1]}, {}}},
           .run = [](const Tensors& out, const Tensors& in, const Stream& s) { sum_rows(out[0], in[0], s); },
           .expected = {sums}});
  }
}

TEST_P(ReduceTest, SumRowsOfSixteenBits) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const Shape& shape : {Shape{1, 101}, Shape{1021, 3}, Shape{64, 33}, Shape{0, 5}}) {
      const Array x = random_.uniform(shape, -1, 1, dtype);
      const Expected sums = sums_of_rows(x);
      for (const DType out : {DType::f32, dtype}) {
        check({.name = fmt::format("sum_rows {}{} as {}", name_of(dtype), to_string(shape), name_of(out)),
               .inputs = {x},
               .outputs = {{out, {shape[1]}, {}}},
               .run = [](const Tensors& o, const Tensors& in, const Stream& s) { sum_rows(o[0], in[0], s); },
               .expected = {sums.stored_as(out)}});
      }
    }
  }
}

}  // namespace
}  // namespace giro
