#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <giro/kernels/nn/functional.h>

#include "kernels/expr/table.h"
#include "kernels/expr/term.h"
#include "kernels/nn/apply.h"
#include "tests/kernels/nn/gradient_test.h"

// This is all that a new function needs. It is tested together with the table's functions.
GIRO_SCALAR_FUNCTION(softsign, 1, a / (T(1) + abs(a)),
                     {.gradients = {GIRO_GRADIENT(dy / square(1 + abs(a)))}, .domain = {{{0.25, 4}}}})

namespace giro::nn {
namespace {

using expr::computed_in;
using expr::ScalarFunction;
using expr::Takes;
using test::Array;

const std::vector<const ScalarFunction*>& table() {
  static const std::vector<const ScalarFunction*> functions{
      &expr::functions::softsign,
#pragma push_macro("GIRO_SCALAR_FUNCTION")
#undef GIRO_SCALAR_FUNCTION
#define GIRO_SCALAR_FUNCTION(NAME, ...) &expr::functions::NAME,
#include "kernels/expr/scalar_functions.h"
#pragma pop_macro("GIRO_SCALAR_FUNCTION")
  };
  return functions;
}

// The function's value for these numbers, computed in f64, in i64 or as booleans.
double value_of(const ScalarFunction& f, const std::array<double, 3>& in, DType of = DType::f64) {
  const DType dtype = is_floating(of) && f.loops.get(DType::f64) != nullptr ? DType::f64 : DType::i64;
  const bool selects = f.rules.takes == Takes::select;
  const bool condition = in[0] != 0;
  std::array<std::int64_t, 3> integers{};
  for (std::size_t i = 0; i < 3; ++i) integers[i] = static_cast<std::int64_t>(in[i]);
  std::array<const void*, 3> pointers{};
  for (std::size_t i = 0; i < 3; ++i) {
    pointers[i] = dtype == DType::f64 ? static_cast<const void*>(&in[i]) : &integers[i];
  }
  if (selects) pointers[0] = &condition;
  if (f.rules.takes == Takes::boolean) {
    const std::array<bool, 2> booleans{in[0] != 0, in[1] != 0};
    const std::array<const void*, 3> of{&booleans[0], &booleans[1], nullptr};
    bool y = false;
    f.loops.get(DType::boolean)(of.data(), &y, 1);
    return y ? 1 : 0;
  }
  if (f.rules.gives == expr::Gives::boolean) {
    bool y = false;
    f.loops.get(dtype)(pointers.data(), &y, 1);
    return y ? 1 : 0;
  }
  if (f.rules.gives == expr::Gives::f32) {
    float y = 0;
    f.loops.get(dtype)(pointers.data(), &y, 1);
    return static_cast<double>(y);
  }
  if (dtype == DType::i64) {
    std::int64_t y = 0;
    f.loops.get(dtype)(pointers.data(), &y, 1);
    return static_cast<double>(of == DType::u8 ? y & 255 : y);
  }
  double y = 0;
  f.loops.get(dtype)(pointers.data(), &y, 1);
  return y;
}

class FunctionsTest : public GradientTest {
 protected:
  static constexpr std::int64_t kCount = 70;

  bool takes(const ScalarFunction& f, DType dtype) const { return f.loops.get(computed_in(dtype)) != nullptr; }

  std::vector<Array> inputs(const ScalarFunction& f, DType dtype) {
    std::vector<Array> arrays;
    for (std::size_t i = 0; i < static_cast<std::size_t>(f.inputs); ++i) {
      const bool is_condition = f.rules.takes == Takes::boolean || (f.rules.takes == Takes::select && i == 0);
      const DType of = is_condition ? DType::boolean : dtype;
      const auto [lowest, highest] = f.rules.domain[i];
      Array array = random_.uniform({kCount}, lowest, highest);
      array.dtype = of;
      for (double& value : array.values) {
        value = of == DType::boolean ? static_cast<double>(value > 0) : test::round_to(of, value);
        if (!is_floating(of)) value = std::trunc(of == DType::u8 ? std::abs(value) : value);
      }
      arrays.push_back(array);
    }
    return arrays;
  }
};

// Tests several functions in one kernel, because on a GPU one kernel per function would take long. Not all at once,
// because the emulation takes long to compile a long kernel.
TEST_P(FunctionsTest, EachIsRightInEveryDtype) {
  for (const DType dtype : test::kAllDTypes) {
    SCOPED_TRACE(name_of(dtype));
    const Shape shape{kCount};
    constexpr std::size_t kTogether = 6;
    std::optional<expr::Builder> builder(shape);
    const expr::Layout layout = expr::broadcast_layout(shape, shape);
    struct Case {
      const ScalarFunction* function;
      std::vector<Array> in;
      Tensor out;
    };
    std::vector<Case> cases;
    for (const ScalarFunction* const f : table()) {
      if (!takes(*f, dtype)) continue;
      const DType result = f->rules.result(dtype);
      cases.push_back({f, inputs(*f, dtype), allocate(result, shape)});
      std::vector<expr::Term> operands;
      for (const Array& array : cases.back().in) operands.push_back(builder->read(upload(array), layout));
      expr::Term::apply(*f, operands).write(cases.back().out, layout);
      if (cases.size() % kTogether != 0) continue;
      queue("functions", std::move(*builder).take(), stream());
      builder.emplace(shape);
    }
    queue("functions", std::move(*builder).take(), stream());
    for (const Case& each : cases) {
      const ScalarFunction& f = *each.function;
      test::Expected expected;
      for (std::size_t k = 0; k < static_cast<std::size_t>(kCount); ++k) {
        std::array<double, 3> at{};
        for (std::size_t i = 0; i < each.in.size(); ++i) at[i] = each.in[i].values[k];
        const double exact = value_of(f, at, is_16_bit(dtype) ? DType::f64 : dtype);
        // Four roundings of sums of numbers up to 4.
        const bool rounds = is_floating(each.out.dtype()) && !f.rules.is_exact;
        const double unit = test::unit_roundoff(computed_in(each.out.dtype()));
        expected.add(exact, rounds ? 4 * unit * (std::abs(exact) + 4) : 0);
      }
      if (is_16_bit(each.out.dtype())) expected = expected.stored_as(each.out.dtype());
      test::Bytes bytes(each.out.bytes());
      stream().copy(bytes.data(), each.out.raw(), bytes.size());
      stream().synchronize();
      test::expect_close(f.name, test::decode(each.out.dtype(), bytes), expected);
    }
  }
}

// Compares gradients in f64 with central differences. On every device gradients consist of the same functions.
TEST_P(FunctionsTest, EachHasItsGradient) {
  const std::size_t step = device().is_cpu() ? 1 : table().size() / 3;
  for (std::size_t at_function = 0; at_function < table().size(); at_function += step) {
    const ScalarFunction* const f = table()[at_function];
    if (!takes(*f, DType::f64)) continue;
    const std::vector<Array> in = inputs(*f, DType::f64);
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (f->rules.gradients[i] == nullptr) continue;
      SCOPED_TRACE(fmt::format("{} by input {}", f->name, i));
      const Tensor grad = allocate(DType::f64, in[i].shape);
      std::vector<Operand> operands;
      for (std::size_t j = 0; j < in.size(); ++j) {
        operands.emplace_back(i == j ? Var::parameter(upload(in[j]), grad, stream()) : Var(upload(in[j]), stream()));
      }
      backward(cast(sum(nn::apply(*f, operands)), DType::f32));
      test::Expected expected;
      for (std::size_t k = 0; k < static_cast<std::size_t>(kCount); ++k) {
        std::array<double, 3> at{};
        for (std::size_t j = 0; j < in.size(); ++j) at[j] = in[j].values[k];
        const auto shifted = [&](double by) {
          std::array<double, 3> there = at;
          there[i] += by;
          return value_of(*f, there);
        };
        constexpr double kSmall = 0x1p-10;
        const double slope =
            (8 * (shifted(kSmall) - shifted(-kSmall)) - (shifted(2 * kSmall) - shifted(-2 * kSmall))) / (12 * kSmall);
        expected.add(slope, 1e-7 * std::max(1.0, std::abs(slope)));
      }
      test::expect_close("gradient", to_host<double>(grad, stream()), expected);
    }
  }
}

// The gradients of 16-bit values lose precision only by being stored, even where a square would overflow.
TEST_P(FunctionsTest, SixteenBitSlopesAreComputedInF32) {
  using Op = Var (*)(const Operand&);
  for (const auto& each : {std::pair<const char*, Op>{"gelu", &gelu}, {"gelu_erf", &gelu_erf}, {"silu", &silu}}) {
    for (const DType dtype : {DType::bf16, DType::f16}) {
      SCOPED_TRACE(fmt::format("{} of {}", each.first, name_of(dtype)));
      const Array x{dtype, {6}, {-4, -3, -0.5, 1, 3, 300}};
      const auto gradient = [&](const Array& at) {
        const Tensor grad = allocate(at.dtype, at.shape);
        backward(cast(sum(each.second(Var::parameter(upload(at), grad, stream()))), DType::f32));
        test::Bytes bytes(grad.bytes());
        stream().copy(bytes.data(), grad.raw(), bytes.size());
        stream().synchronize();
        return test::decode(at.dtype, bytes);
      };
      test::Expected expected;
      for (const double slope : gradient({DType::f64, x.shape, x.values})) {
        expected.add(slope, 16 * test::kUnit * (std::abs(slope) + 1));
      }
      test::expect_close("slope", gradient(x), expected.stored_as(dtype, 2));
    }
  }
}

// Checks the f64 code of the table, the reference in other tests, against independent formulas.
TEST(FunctionsReference, CodeMatchesTheMathematics) {
  using F = double (*)(double, double);
  const std::map<std::string, F> references{
      {"tanh", [](double a, double) { return std::tanh(a); }},
      {"sigmoid", [](double a, double) { return 1 / (1 + std::exp(-a)); }},
      {"softplus", [](double a, double) { return std::log(1 + std::exp(a)); }},
      {"silu", [](double a, double) { return a / (1 + std::exp(-a)); }},
      {"gelu",
       [](double a, double) { return a / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (a + 0.044715 * a * a * a))); }},
      {"gelu_erf", [](double a, double) { return a * std::erfc(-a / std::sqrt(2)) / 2; }},
      {"relu", [](double a, double) { return std::fmax(a, 0); }},
      {"rsqrt", [](double a, double) { return std::pow(a, -0.5); }},
      {"square", [](double a, double) { return std::pow(a, 2); }},
      {"power", [](double a, double b) { return std::exp(b * std::log(a)); }},
      {"xlogy", [](double a, double b) { return a * std::log(b); }},
      {"maximum", [](double a, double b) { return std::fmax(a, b); }},
      {"minimum", [](double a, double b) { return std::fmin(a, b); }},
      {"softsign", [](double a, double) { return a / (1 + std::fabs(a)); }},
  };
  std::size_t found = 0;
  for (const ScalarFunction* const f : table()) {
    const auto reference = references.find(f->name);
    if (reference == references.end()) continue;
    ++found;
    const auto [low, high] = f->rules.domain[0];
    const auto [low_b, high_b] = f->rules.domain[1];
    for (int k = 0; k <= 100; ++k) {
      const double a = low + (high - low) * k / 100, b = low_b + (high_b - low_b) * (k * 37 % 101) / 100;
      const double expected = reference->second(a, b);
      EXPECT_NEAR(value_of(*f, {a, b, 0}), expected, 1e-13 * (1 + std::abs(expected)))
          << f->name << ' ' << a << ' ' << b;
    }
  }
  EXPECT_EQ(found, references.size());
}

INSTANTIATE_TEST_SUITE_P(Devices, FunctionsTest, test::kDevices, test::device_name);

}  // namespace
}  // namespace giro::nn
