
#include <cmath>

#include "tests/kernels/op_test.h"
#include "tests/support/tensor_ops.h"

namespace giro {
namespace {

using test::Array, test::Tensors;

class MomentsTest : public test::OpTest {
 protected:
  // x has shape (R, ...). The mask has x's first axes; without a mask every value counts.
  void check_moments(const std::string& name, const Array& x, const Array* mask) {
    std::vector<double> counted;
    const std::int64_t inner = mask == nullptr ? 1 : x.shape.count() / std::max<std::int64_t>(1, mask->shape.count());
    for (std::int64_t i = 0; i < x.shape.count(); ++i) {
      if (mask != nullptr && mask->values[static_cast<std::size_t>(i / inner)] == 0) continue;
      counted.push_back(x.values[static_cast<std::size_t>(i)]);
    }
    const auto count = static_cast<double>(counted.size());
    double mean = 0, variance = 0;
    for (const double value : counted) mean += value / count;
    for (const double value : counted) variance += (value - mean) * (value - mean) / count;
    if (counted.empty()) mean = variance = test::kNaN;
    const double unit = 1e-12 * std::max(1.0, std::abs(mean)), deviation = std::sqrt(variance);
    check({.name = fmt::format("{} of {}", name, to_string(x.shape)),
           .inputs = mask == nullptr ? std::vector<Array>{x} : std::vector<Array>{x, *mask},
           .outputs = {{DType::f64, {}, {}}, {DType::f64, {}, {}}, {DType::f64, {}, {}}},
           .run = [](const Tensors& out, const Tensors& in,
                     const Stream& s) { moments(out[0], out[1], out[2], in[0], in.size() > 1 ? in[1] : Tensor(), s); },
           .expected = {{{mean}, {unit}}, {{deviation}, {unit}}, {{count}, {0}}}});
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, MomentsTest, test::kDevices, test::device_name);

TEST_P(MomentsTest, OfUnmaskedElements) {
  // On a GPU each shape needs its own kernel.
  const std::vector<Shape> few{{7, 5, 3}, {40'000}}, all{{1}, {31}, {513, 3}, {4097}, {7, 5, 3}, {40'000}};
  for (const Shape& shape : device().is_cuda() ? few : all) {
    const Array x = random_.uniform(shape, -1, 2);
    check_moments("all", x, nullptr);
    for (std::size_t axes = 1; axes <= shape.rank(); ++axes) {
      Array mask = random_.integers(Shape(std::span(shape.begin(), axes)), 0, 1, DType::boolean);
      mask.values.front() = 1;
      check_moments("masked", x, &mask);
    }
  }
}

TEST_P(MomentsTest, DeviationFarFromZero) {
  const Array mask = random_.integers({100}, 0, 1, DType::boolean);
  for (const double mean : {1e4, 1e7}) {
    const Array x = random_.uniform({100}, mean - 5, mean + 5);
    check_moments(fmt::format("around {}", mean), x, nullptr);
    check_moments(fmt::format("masked around {}", mean), x, &mask);
  }
}

TEST_P(MomentsTest, MaskedElementsMayBeNaN) {
  const Array mask{DType::boolean, {3}, {1, 0, 1}};
  check_moments("masked NaN", {DType::f32, {3}, {1, test::kNaN, 3}}, &mask);
}

TEST_P(MomentsTest, AreNaNWithoutUnmaskedElements) {
  const Array none{DType::boolean, {2}, {0, 0}};
  check_moments("nothing", {DType::f32, {2}, {1, 2}}, &none);
  check_moments("no values", {DType::f32, {0}, {}}, nullptr);
}

// The parts 1, 3 and 5, 9, 10 make up 1, 3, 5, 9, 10.
TEST_P(MomentsTest, SumsOfPartsEqualTheSumOfTheWhole) {
  const auto parts = [](const Array& mean, const Array& deviation, const Array& count,
                        const std::vector<double>& sums) {
    return test::OpCase{.name = "sums",
                        .inputs = {mean, deviation, count},
                        .outputs = {{DType::f64, {3}, {}}},
                        .run = [](const Tensors& out, const Tensors& in,
                                  const Stream& s) { moment_sums(out[0], in[0], in[1], in[2], s); },
                        .expected = {{sums, {1e-12, 1e-12, 0}}}};
  };
  const auto number = [](double value) { return Array{DType::f64, {}, {value}}; };
  check(parts(number(2), number(1), number(2), {4, 10, 2}));
  check(parts(number(8), number(std::sqrt(14.0 / 3)), number(3), {24, 206, 3}));
  check(parts(number(test::kNaN), number(test::kNaN), number(0), {0, 0, 0}));
  check({.name = "of sums",
         .inputs = {{DType::f64, {3}, {14, 108, 2.5}}},
         .outputs = {{DType::f64, {}, {}}, {DType::f64, {}, {}}, {DType::f64, {}, {}}},
         .run = [](const Tensors& out, const Tensors& in,
                   const Stream& s) { moments_of_sums(out[0], out[1], out[2], in[0], 2, s); },
         .expected = {{{5.6}, {1e-12}}, {{std::sqrt(216 / 5.0 - 5.6 * 5.6)}, {1e-12}}, {{5}, {0}}}});
}

TEST_P(MomentsTest, RejectsAMaskOfOtherAxes) {
  const Tensor number = tensor({}, DType::f64), values = tensor({4, 3}), mask = tensor({3}, DType::boolean);
  test::expect_error(ErrorCode::shape_mismatch, {"moments", "mask", "(3,)", "(4, 3)"},
                     [&] { moments(number, number, number, values, mask, stream()); });
}

}  // namespace
}  // namespace giro
