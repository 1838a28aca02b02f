
#include <giro/kernels/nn/functional.h>

#include "tests/kernels/op_test.h"
#include "tests/support/tensor_ops.h"

namespace giro {
namespace {

using test::Array, test::kUnit, test::Tensors;

double reference(const Array& logits, const std::vector<double>& labels) {
  const std::int64_t rows = logits.shape[0], classes = logits.shape[1];
  std::int64_t right = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    const double* x = logits.values.data() + r * classes;
    std::int64_t largest = 0;
    bool nan = false;
    for (std::int64_t c = 0; c < classes; ++c) {
      nan |= std::isnan(x[c]);
      if (x[c] > x[largest]) largest = c;
    }
    if (!nan && static_cast<double>(largest) == labels[r]) ++right;
  }
  return static_cast<double>(right) / static_cast<double>(rows);
}

class AccuracyTest : public test::OpTest {
 protected:
  void check_share(const std::string& name, const Array& logits, const Array& labels) {
    const double share = reference(logits, labels.values);
    check({.name = fmt::format("{}, {}, labels {}", name, to_string(logits.shape), name_of(labels.dtype)),
           .inputs = {logits, labels},
           .outputs = {{DType::f32, {}, {}}},
           .run = [](const Tensors& out, const Tensors& in, const Stream& s) { accuracy(out[0], in[0], in[1], s); },
           .expected = {{{share}, {2 * kUnit * share}}}});
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, AccuracyTest, test::kDevices, test::device_name);

TEST_P(AccuracyTest, FractionOfCorrectRows) {
  // On a GPU each number of classes and each dtype needs its own kernel.
  const std::vector<Shape> few{{32, 10}, {3, 1000}},
      all{{1, 1}, {1, 10}, {32, 10}, {257, 3}, {1021, 2}, {3, 1000}, {5003, 3}};
  for (const Shape& shape : device().is_cuda() ? few : all) {
    const Array logits = random_.uniform(shape);
    for (const DType dtype : test::kLabelDTypes) {
      if (device().is_cuda() && dtype != test::kLabelDTypes[shape[0] % 3]) continue;
      check_share("random", logits, random_.integers({shape[0]}, 0, std::min<std::int64_t>(shape[1], 256) - 1, dtype));
    }
  }
}

// More rows than the second pass adds up in one round (512 blocks of 128 rows). Without check(), which would run it
// five times.
TEST_P(AccuracyTest, ManyRows) {
  constexpr std::int64_t kRows = 512 * 128 + 1000;
  const Tensor logits = tensor({kRows, 1}), labels = tensor({kRows}, DType::u8), out = tensor({});
  std::vector<std::uint8_t> wanted(kRows, 1);                                 // wrong
  std::fill(wanted.begin() + 512 * 128 - 10, wanted.end(), std::uint8_t{0});  // right: the last blocks' rows
  from_host(logits, std::vector<float>(kRows, 0.5f), stream());
  from_host(labels, wanted, stream());
  accuracy(out, logits, labels, stream());
  EXPECT_EQ(to_host<float>(out, stream())[0], static_cast<float>(1010.0 / kRows));
}

TEST_P(AccuracyTest, AllAndNone) {
  const Array logits{DType::f32, {3, 2}, {1, 0, 0, 1, 5, -5}};
  check_share("all", logits, {DType::u8, {3}, {0, 1, 0}});
  check_share("none", logits, {DType::u8, {3}, {1, 0, 1}});
}

TEST_P(AccuracyTest, SixteenBits) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    check_share("random", random_.uniform({32, 10}, -1, 1, dtype), random_.integers({32}, 0, 9, DType::u8));
  }
}

TEST_P(AccuracyTest, FirstOfTiesCounts) {
  const Array few = random_.integers({509, 7}, 0, 2, DType::f32);
  check_share("ties", few, random_.integers({509}, 0, 6, DType::i32));
  const Array equal{DType::f32, {2, 4}, std::vector<double>(8, -1.0)};
  check_share("all equal", equal, {DType::u8, {2}, {0, 1}});
  const Array lowest{DType::f32, {1, 3}, {-test::kInfinity, -test::kInfinity, -test::kInfinity}};
  check_share("all -infinity", lowest, {DType::u8, {1}, {0}});
}

TEST_P(AccuracyTest, RowsWithNaNAreWrong) {
  for (const int place : {0, 1, 2, 3}) {
    for (const int label : {0, 1, 2, 3}) {
      Array logits{DType::f32, {2, 4}, {1, 2, 4, 3, 1, 2, 4, 3}};
      logits.values[static_cast<std::size_t>(place)] = test::kNaN;
      check_share(fmt::format("NaN at {}", place), logits, {DType::u8, {2}, {static_cast<double>(label), 2}});
    }
  }
}

TEST_P(AccuracyTest, LabelsOutOfRangeAreWrong) {
  const Array logits = random_.uniform({4, 3});
  check_share("u8", logits, {DType::u8, {4}, {3, 255, 0, 1}});
  check_share("i64", logits, {DType::i64, {4}, {-1, 4294967296.0, 4294967297.0, 4294967298.0}});
}

TEST_P(AccuracyTest, RejectsMismatchedArguments) {
  const auto rate = [&](const Tensor& logits, const Tensor& labels) {
    return [=, this] { (void)nn::accuracy(nn::Var(logits, stream()), nn::Var(labels, stream())); };
  };
  const Tensor logits = tensor({4, 3}), labels = tensor({4}, DType::i32);
  expect_shape_error({4}, {5}, rate(logits, tensor({5}, DType::i32)));
  expect_error(ErrorCode::shape_mismatch, {to_string(Shape{12})}, rate(tensor({12}), labels));
  expect_error(ErrorCode::invalid_argument, {to_string(Shape{0, 3})}, rate(tensor({0, 3}), tensor({0}, DType::i32)));
  expect_error(ErrorCode::invalid_argument, {to_string(Shape{4, 0}), "class"}, rate(tensor({4, 0}), labels));
  expect_error(ErrorCode::dtype_mismatch, {"labels", "f32"}, rate(logits, tensor({4})));
  expect_dtype_error(DType::f32, DType::f64, rate(tensor({4, 3}, DType::f64), labels));
  expect_device_error(rate(logits, elsewhere(labels)));
}

TEST_P(AccuracyTest, PerRow) {
  for (const Shape& shape : {Shape{1, 1}, Shape{37, 3}, Shape{3, 100}}) {
    Array logits = random_.uniform(shape);
    logits.values.back() = test::kNaN;
    const Array labels = random_.integers({shape[0]}, 0, shape[1] - 1, DType::i32);
    test::Expected rows;
    for (std::int64_t r = 0; r < shape[0]; ++r) {
      const auto begin = logits.values.begin() + r * shape[1];
      rows.add(reference({DType::f32, {1, shape[1]}, {begin, begin + shape[1]}},
                         {labels.values[static_cast<std::size_t>(r)]}),
               0);
    }
    check({.name = "rows of " + to_string(shape),
           .inputs = {logits, labels},
           .outputs = {{DType::f32, {shape[0]}, {}}},
           .run = [](const Tensors& out, const Tensors& in, const Stream& s) { correct(out[0], in[0], in[1], s); },
           .expected = {rows}});
  }
}

}  // namespace
}  // namespace giro
