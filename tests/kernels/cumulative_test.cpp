
#include "tests/kernels/op_test.h"
#include "tests/support/tensor_ops.h"

namespace giro {
namespace {

using test::Array, test::Expected, test::Tensors;

constexpr DType kNumbers[] = {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i32, DType::i64, DType::u8};

class CumulativeTest : public test::OpTest {
 protected:
  // Expects results as in double arithmetic; exact ones for integers.
  void check_rows(const Array& x, Cumulative of, bool reversed) {
    const std::int64_t rows = x.shape[0], length = x.shape[1];
    Expected expected{std::vector<double>(x.values.size()), std::vector<double>(x.values.size())};
    const bool is_sum = of == Cumulative::sum, is_max = of == Cumulative::max;
    for (std::int64_t r = 0; r < rows; ++r) {
      long double total = is_max ? -test::kInfinity : is_sum ? 0 : 1, magnitude = is_max ? 0 : total;
      for (std::int64_t i = 0; i < length; ++i) {
        const auto at = static_cast<std::size_t>(r * length + (reversed ? length - 1 - i : i));
        const auto value = static_cast<long double>(x.values[at]);
        total = is_max ? (value > total || std::isnan(value) ? value : total) : is_sum ? total + value : total * value;
        magnitude = is_max ? 0 : is_sum ? magnitude + std::abs(value) : magnitude * std::abs(value);
        const double stored = test::round_to(x.dtype, static_cast<double>(total));
        expected.values[at] = std::isinf(stored) ? stored : static_cast<double>(total);
        if (is_floating(x.dtype)) {
          const double on_the_way = static_cast<double>(i + 1) * 0x1p-53 * static_cast<double>(magnitude);
          expected.tolerances[at] =
              is_max ? 0
                     : on_the_way + (x.dtype == DType::f64 ? 0 : test::kUnit * std::abs(static_cast<double>(total)));
        }
      }
    }
    check({.name = fmt::format("{} of {}{}{}",
                               is_max   ? "max"
                               : is_sum ? "sum"
                                        : "product",
                               name_of(x.dtype), to_string(x.shape), reversed ? " reversed" : ""),
           .inputs = {x},
           .outputs = {{x.dtype, x.shape, {}}},
           .run = [=](const Tensors& out, const Tensors& in,
                      const Stream& s) { cumulative(out[0], in[0], of, reversed, s); },
           .expected = {expected.stored_as(x.dtype)}});
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, CumulativeTest, test::kDevices, test::device_name);

// Rows shorter than a GPU block, a few block-sized parts long, and exactly a whole number of parts.
TEST_P(CumulativeTest, SumsOfEveryDtype) {
  for (const Shape& shape : {Shape{1, 1}, Shape{5, 3}, Shape{3, 128}, Shape{2, 129}, Shape{3, 1024}, Shape{2, 2500},
                             Shape{40, 17}, Shape{0, 5}, Shape{5, 0}}) {
    for (const DType dtype : kNumbers) {
      const Array x = is_floating(dtype) ? random_.uniform(shape, -1, 1, dtype) : random_.integers(shape, 0, 0, dtype);
      Array whole = x;
      if (!is_floating(dtype)) {
        // So few ones that their sum fits in a byte.
        for (std::size_t i = 0; i < whole.values.size(); i += 17) whole.values[i] = 1;
        if (dtype == DType::u8 && shape[1] > 1024) continue;
      }
      for (const bool reversed : {false, true}) check_rows(whole, Cumulative::sum, reversed);
    }
  }
}

TEST_P(CumulativeTest, ProductsOfEveryDtype) {
  for (const Shape& shape : {Shape{5, 3}, Shape{2, 129}, Shape{3, 2500}}) {
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
      check_rows(random_.uniform(shape, 0.96, 1.04, dtype), Cumulative::product, false);
    }
    for (const DType dtype : {DType::i32, DType::i64}) {
      Array x = random_.integers(shape, 1, 1, dtype);
      for (std::size_t i = 0; i < x.values.size(); i += 131) x.values[i] = -2;
      check_rows(x, Cumulative::product, true);
    }
  }
}

TEST_P(CumulativeTest, MaximaOfEveryDtype) {
  for (const Shape& shape : {Shape{5, 3}, Shape{2, 129}, Shape{3, 2500}, Shape{0, 5}, Shape{5, 0}}) {
    for (const DType dtype : kNumbers) {
      Array x = is_floating(dtype) ? random_.uniform(shape, -1, 1, dtype)
                                   : random_.integers(shape, dtype == DType::u8 ? 0 : -9, 9, dtype);
      for (const bool reversed : {false, true}) check_rows(x, Cumulative::max, reversed);
      if (!is_floating(dtype) || x.values.size() < 9) continue;
      x.values[4] = test::kNaN;
      x.values[7] = test::kInfinity;
      x.values[0] = -test::kInfinity;
      for (const bool reversed : {false, true}) check_rows(x, Cumulative::max, reversed);
    }
  }
}

// In f32 the sum would stay at 2^24, and the product would overflow.
TEST_P(CumulativeTest, IsComputedInDouble) {
  Array ones{DType::f32, {1, 3000}, std::vector<double>(3000, 1)};
  ones.values[0] = 0x1p24;
  check_rows(ones, Cumulative::sum, false);
  check_rows({DType::f32, {1, 4}, {1e30, 1e30, 1e-30, 1e-30}}, Cumulative::product, false);
}

TEST_P(CumulativeTest, IntegersWrap) {
  const auto run = [&](DType dtype, Cumulative of, const std::vector<double>& x, const std::vector<double>& y) {
    const auto n = static_cast<std::int64_t>(x.size());
    check({.name = fmt::format("{} wraps", name_of(dtype)),
           .inputs = {{dtype, {1, n}, x}},
           .outputs = {{dtype, {1, n}, {}}},
           .run = [=](const Tensors& out, const Tensors& in,
                      const Stream& s) { cumulative(out[0], in[0], of, false, s); },
           .expected = {{y, std::vector<double>(y.size())}}});
  };
  run(DType::i32, Cumulative::sum, {2147483647, 1, 1}, {2147483647, -2147483648.0, -2147483647});
  run(DType::u8, Cumulative::sum, {200, 100, 1}, {200, 44, 45});
  run(DType::i32, Cumulative::product, {65536, 65536, 5}, {65536, 0, 0});
  run(DType::i64, Cumulative::product, {-4294967296.0, 2147483648.0, 2}, {-4294967296.0, -9223372036854775808.0, 0});
}

// A non-finite value affects only its own and later results.
TEST_P(CumulativeTest, NaNPropagates) {
  Array x{DType::f32, {2, 300}, std::vector<double>(600, 1)};
  x.values[250] = test::kNaN;
  x.values[310] = test::kInfinity;
  check_rows(x, Cumulative::sum, false);
  check_rows(x, Cumulative::sum, true);
}

}  // namespace
}  // namespace giro
