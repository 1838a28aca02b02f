
#include "tests/kernels/op_test.h"
#include "tests/support/tensor_ops.h"

namespace giro {
namespace {

using test::Array, test::Expected, test::OpCase, test::round_to, test::Tensors, test::unit_roundoff;

const Shape kElementwiseShapes[] = {{}, {0}, {1}, {7}, {64}, {1021}, {3, 5, 7}, {1, 4099}, {100003}};

std::string label(const char* op, DType dtype, const Shape& shape) {
  return fmt::format("{} {}{}", op, name_of(dtype), to_string(shape));
}

class ElementwiseTest : public test::OpTest {
 protected:
  // On a GPU each pair of dtypes needs its own kernel, so only one pair in four is tried there.
  bool is_left_out(DType from, DType to) const {
    return device().is_cuda() && (static_cast<int>(from) + static_cast<int>(to)) % 4 != 0;
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, ElementwiseTest, test::kDevices, test::device_name);

// The expected sum or product of two values of a dtype, computed in double: the f32 result, rounded to the dtype.
// Roundings in double make no difference.
double exact(DType dtype, double value) {
  return dtype == DType::f64 ? value : round_to(dtype, round_to(DType::f32, value));
}

TEST_P(ElementwiseTest, AddAndMultiply) {
  using Op = void (*)(const Tensor& out, const Tensor& a, const Tensor& b, const Stream& stream);
  const auto check_op = [&](const char* name, Op op, double (*of)(double a, double b)) {
    for (const DType dtype : test::kFloatingDTypes) {
      for (const Shape& shape : kElementwiseShapes) {
        const Array a = random_.uniform(shape, -3, 3, dtype), b = random_.uniform(shape, -1, 2, dtype);
        Expected expected;
        for (std::size_t i = 0; i < a.values.size(); ++i) expected.add(exact(dtype, of(a.values[i], b.values[i])), 0);
        check({.name = label(name, dtype, shape),
               .inputs = {a, b},
               .outputs = {{dtype, shape, {}}},
               .run = [&](const Tensors& out, const Tensors& in, const Stream& s) { op(out[0], in[0], in[1], s); },
               .expected = {expected}});
      }
    }
  };
  check_op("add", add, [](double a, double b) { return a + b; });
  check_op("multiply", multiply, [](double a, double b) { return a * b; });
}

TEST_P(ElementwiseTest, OutputMayBeAnInput) {
  const Shape shape{1021};
  const Array a = random_.uniform(shape), b = random_.uniform(shape);
  Expected sum, square, half;
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    sum.add(round_to(DType::f32, a.values[i] + b.values[i]), 0);
    square.add(round_to(DType::f32, a.values[i] * a.values[i]), 0);
    half.add(a.values[i] * 0.5, 0);
  }
  check({.name = "a = a + b",
         .inputs = {b},
         .outputs = {a},
         .run = [](const Tensors& out, const Tensors& in, const Stream& s) { add(out[0], out[0], in[0], s); },
         .expected = {sum}});
  check({.name = "a = b + a",
         .inputs = {b},
         .outputs = {a},
         .run = [](const Tensors& out, const Tensors& in, const Stream& s) { add(out[0], in[0], out[0], s); },
         .expected = {sum}});
  check({.name = "a = a * a",
         .inputs = {},
         .outputs = {a},
         .run = [](const Tensors& out, const Tensors&, const Stream& s) { multiply(out[0], out[0], out[0], s); },
         .expected = {square}});
  check({.name = "a = a / 2",
         .inputs = {},
         .outputs = {a},
         .run = [](const Tensors& out, const Tensors&, const Stream& s) { scale(out[0], out[0], 0.5, s); },
         .expected = {half}});
}

TEST_P(ElementwiseTest, ScaleTakesEveryDType) {
  const double factor = 1 / 255.0;
  for (const DType from : test::kAllDTypes) {
    for (const DType to : test::kFloatingDTypes) {
      if (is_left_out(from, to)) continue;
      for (const Shape& shape : {Shape{}, Shape{0}, Shape{2, 7}, Shape{1021}}) {
        const Array a = from == DType::boolean ? random_.integers(shape, 0, 1, from)
                        : is_floating(from)    ? random_.uniform(shape, -300, 300, from)
                                               : random_.integers(shape, 0, 255, from);
        const bool in_f64 = from == DType::f64 || to == DType::f64;
        Expected scaled;
        for (const double value : a.values) {
          const double product = factor * value;
          // In f32 the factor and the product are rounded, and then the result is.
          const double unit = (in_f64 ? 0 : 2.01 * test::kUnit) + (to == DType::f64 ? 0 : unit_roundoff(to));
          scaled.add(product, 1.01 * unit * std::abs(product) + (to == DType::f16 ? 0x1p-25 : 0));
        }
        check({.name = fmt::format("scale {}{} to {}", name_of(from), to_string(shape), name_of(to)),
               .inputs = {a},
               .outputs = {{to, shape, {}}},
               .run = [=](const Tensors& out, const Tensors& in, const Stream& s) { scale(out[0], in[0], factor, s); },
               .expected = {scaled}});
      }
    }
  }
}

TEST_P(ElementwiseTest, CastBetweenAllDTypes) {
  for (const DType from : test::kAllDTypes) {
    for (const DType to : test::kAllDTypes) {
      if (is_left_out(from, to)) continue;
      for (const Shape& shape : {Shape{}, Shape{0}, Shape{13, 5}, Shape{4099}}) {
        const bool is_unsigned = from == DType::u8 || from == DType::boolean || to == DType::u8;
        const double low = is_unsigned ? 0 : -200, high = from == DType::boolean ? 1 : 200;
        Array a = is_floating(from)
                      ? random_.uniform(shape, low, high, from)
                      : random_.integers(shape, static_cast<std::int64_t>(low), static_cast<std::int64_t>(high), from);
        // 0.25 is true as a bool, but 0 as an integer.
        for (std::size_t i = 0; i < a.values.size(); i += 3) a.values[i] = is_floating(from) && i % 2 ? 0.25 : 0;
        Expected converted;
        for (const double value : a.values) {
          if (to == DType::boolean) {
            converted.add(value != 0, 0);
          } else if (!is_floating(to)) {
            converted.add(std::trunc(value), 0);
          } else if (to == DType::f64) {
            converted.add(value, 0);
          } else {
            // With or without f32 in between, the error is barely more than half a unit in the last place.
            converted.add(value, 1.001 * unit_roundoff(to) * std::abs(value) + (to == DType::f16 ? 0x1p-25 : 0));
          }
        }
        check({.name = fmt::format("cast {}{} to {}", name_of(from), to_string(shape), name_of(to)),
               .inputs = {a},
               .outputs = {{to, shape, {}}},
               .run = [](const Tensors& out, const Tensors& in, const Stream& s) { cast(out[0], in[0], s); },
               .expected = {converted}});
      }
    }
  }
}

TEST_P(ElementwiseTest, CastOfWideIntegersIsExact) {
  const Array big{DType::i64, {4}, {9007199254740991.0, -9007199254740991.0, 4294967296.0, 2147483648.0}};
  const auto run = [](const Tensors& out, const Tensors& in, const Stream& s) { cast(out[0], in[0], s); };
  Expected exactly;
  for (const double value : big.values) exactly.add(value, 0);
  check({.name = "i64 to f64", .inputs = {big}, .outputs = {{DType::f64, {4}, {}}}, .run = run, .expected = {exactly}});
  check({.name = "f64 to i64",
         .inputs = {{DType::f64, {4}, big.values}},
         .outputs = {{DType::i64, {4}, {}}},
         .run = run,
         .expected = {exactly}});
  const Array ints{DType::i32, {3}, {2147483647.0, -2147483648.0, 16777217.0}};
  Expected as_wide;
  for (const double value : ints.values) as_wide.add(value, 0);
  for (const DType wide : {DType::i64, DType::f64}) {
    check({.name = fmt::format("i32 to {}", name_of(wide)),
           .inputs = {ints},
           .outputs = {{wide, {3}, {}}},
           .run = run,
           .expected = {as_wide}});
  }
}

TEST_P(ElementwiseTest, CastRoundsToNearestEven) {
  const double tie16 = 0x1p-11, tie_b = 0x1p-8;  // half a unit in the last place of 1
  const std::vector<double> values = {0.0,
                                      -0.0,
                                      1.0,
                                      1 + tie16,
                                      1 + 3 * tie16,
                                      1 + tie16 + 0x1p-20,
                                      1 + tie_b,
                                      1 + 3 * tie_b,
                                      1 + tie_b - 0x1p-20,
                                      -1 - tie16,
                                      -1 - tie_b,
                                      65504,
                                      65519,
                                      65520,
                                      -65520,
                                      1e5,
                                      3.3e38,
                                      0x1.fep127,
                                      FLT_MAX,
                                      -FLT_MAX,
                                      0x1p-14,
                                      0x1p-24,
                                      0x1p-25,
                                      0x1.8p-25,
                                      0x1p-26,
                                      0x1.ff8p-15,
                                      0x1.ffcp-15,
                                      3 * 0x1p-25,
                                      0x1p-126,
                                      0x1p-133,
                                      0x1p-134,
                                      0x1.8p-134,
                                      0x1p-149,
                                      test::kInfinity,
                                      -test::kInfinity,
                                      test::kNaN};
  const Shape shape{static_cast<std::int64_t>(values.size())};
  const auto run = [](const Tensors& out, const Tensors& in, const Stream& s) { cast(out[0], in[0], s); };
  for (const DType to : {DType::bf16, DType::f16}) {
    Expected narrow;
    for (const double value : values) narrow.add(round_to(to, value), 0);
    check({.name = fmt::format("f32 to {}", name_of(to)),
           .inputs = {{DType::f32, shape, values}},
           .outputs = {{to, shape, {}}},
           .run = run,
           .expected = {narrow}});
    check({.name = fmt::format("{} to f32", name_of(to)),
           .inputs = {{to, shape, narrow.values}},
           .outputs = {{DType::f32, shape, {}}},
           .run = run,
           .expected = {narrow}});
  }
}

TEST_P(ElementwiseTest, NaNAndInfinityPassThrough) {
  const Array a{DType::f32, {4}, {test::kNaN, test::kInfinity, -test::kInfinity, 3e38}};
  const Array b{DType::f32, {4}, {1, 1, test::kInfinity, 3e38}};
  Expected sum, product;
  for (const double value : {test::kNaN, test::kInfinity, test::kNaN, test::kInfinity}) sum.add(value, 0);
  for (const double value : {test::kNaN, test::kInfinity, -test::kInfinity, test::kInfinity}) product.add(value, 0);
  check({.name = "add",
         .inputs = {a, b},
         .outputs = {{DType::f32, {4}, {}}},
         .run = [](const Tensors& out, const Tensors& in, const Stream& s) { add(out[0], in[0], in[1], s); },
         .expected = {sum}});
  check({.name = "multiply",
         .inputs = {a, b},
         .outputs = {{DType::f32, {4}, {}}},
         .run = [](const Tensors& out, const Tensors& in, const Stream& s) { multiply(out[0], in[0], in[1], s); },
         .expected = {product}});
}

TEST_P(ElementwiseTest, FillTakesEveryDType) {
  for (const DType dtype : test::kAllDTypes) {
    const double value = is_floating(dtype) ? -0.1 : dtype == DType::boolean ? 1 : 77;
    for (const Shape& shape : kElementwiseShapes) {
      Expected filled;
      for (std::int64_t i = 0; i < shape.count(); ++i) filled.add(round_to(dtype, value), 0);
      check({.name = label("fill", dtype, shape),
             .inputs = {},
             .outputs = {{dtype, shape, {}}},
             .run = [=](const Tensors& out, const Tensors&, const Stream& s) { fill(out[0], value, s); },
             .expected = {filled}});
    }
  }
}

TEST_P(ElementwiseTest, ScaleRows) {
  for (const Shape& shape : {Shape{1}, Shape{5}, Shape{1, 1}, Shape{32, 10}, Shape{7, 3, 5}, Shape{1021, 1},
                             Shape{2, 4099}, Shape{3, 2, 2, 7}, Shape{0, 4}}) {
    const Array a = random_.uniform(shape), factors = random_.uniform({shape[0]}, -2, 2);
    const std::int64_t columns = shape.drop_front().count();
    Expected scaled;
    for (std::int64_t r = 0; r < shape[0]; ++r) {
      for (std::int64_t c = 0; c < columns; ++c) {
        scaled.add(round_to(DType::f32, a.values[r * columns + c] * factors.values[r]), 0);
      }
    }
    check({.name = label("scale_rows", DType::f32, shape),
           .inputs = {a, factors},
           .outputs = {{DType::f32, shape, {}}},
           .run = [](const Tensors& out, const Tensors& in, const Stream& s) { scale_rows(out[0], in[0], in[1], s); },
           .expected = {scaled}});
    check({.name = label("scale_rows in place", DType::f32, shape),
           .inputs = {factors},
           .outputs = {a},
           .run = [](const Tensors& out, const Tensors& in, const Stream& s) { scale_rows(out[0], out[0], in[0], s); },
           .expected = {scaled}});
  }
}

TEST_P(ElementwiseTest, Broadcast) {
  for (const Shape& shape : kElementwiseShapes) {
    Expected filled;
    for (std::int64_t i = 0; i < shape.count(); ++i) filled.add(0.75 / 1021, 3 * test::kUnit * 0.75 / 1021);
    check(
        {.name = label("broadcast", DType::f32, shape),
         .inputs = {{DType::f32, {}, {0.75}}},
         .outputs = {{DType::f32, shape, {}}},
         .run = [](const Tensors& out, const Tensors& in, const Stream& s) { broadcast(out[0], in[0], 1 / 1021.0, s); },
         .expected = {filled}});
  }
}

TEST_P(ElementwiseTest, Increment) {
  for (const std::int64_t amount : {std::int64_t{1}, std::int64_t{-3}, std::int64_t{1} << 40}) {
    check({.name = fmt::format("increment by {}", amount),
           .inputs = {},
           .outputs = {{DType::i64, {}, {41}}},
           .run = [=](const Tensors& out, const Tensors&, const Stream& s) { increment(out[0], amount, s); },
           .expected = {{{41.0 + static_cast<double>(amount)}, {0}}}});
  }
}

}  // namespace
}  // namespace giro
