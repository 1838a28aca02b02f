#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include <giro/runtime/stream.h>

#include "kernels/cpu/subnormals.h"
#include "kernels/expr/expression_op.h"
#include "kernels/expr/instruction_sets.h"
#include "kernels/expr/table.h"
#include "tests/kernels/expr/expressions.h"
#include "tests/kernels/op_test.h"
#include "tests/support/sanitized.h"

namespace giro::test {
namespace {

using expr::InstructionSet;

void for_each_set(const std::function<void(InstructionSet)>& f) {
  const InstructionSet best = expr::instruction_set();
  for (const InstructionSet set : {expr::kBaseline, expr::kAvx2, expr::kAvx512}) {
    if (expr::use_instruction_set(set)) f(set);
  }
  expr::use_instruction_set(best);
}

// Runs the instructions one by one, each with its function's loop over all elements.
std::vector<std::vector<std::byte>> computed_by_loops(const Builder& b) {
  const auto n = static_cast<std::size_t>(b.expression.space.count());
  std::vector<std::vector<std::byte>> values;
  for (const Instruction& code : b.expression.code) {
    std::vector<std::byte> value(4 * n);
    if (code.kind == Instruction::Kind::read) {
      const auto& memory = b.read_memory[code.index]->bytes();
      std::copy(memory.begin(), memory.end() - 64, value.begin());
    } else if (code.kind == Instruction::Kind::constant) {
      for (std::size_t i = 0; i < n; ++i) reinterpret_cast<float*>(value.data())[i] = static_cast<float>(code.number);
    } else {
      const void* const in[] = {values[code.operands[0]].data(), values[code.operands[1]].data(),
                                values[code.operands[2]].data()};
      const cpu::FlushSubnormals flush;
      code.function->loops.get(DType::f32)(in, value.data(), static_cast<std::int64_t>(n));
    }
    values.push_back(std::move(value));
  }
  return values;
}

// f32 functions in one chain give the same bits as one by one, also for special numbers.
TEST(ChainTest, ChainedFunctionsGiveTheSameBits) {
  namespace functions = expr::functions;
  const ScalarFunction* const all[] = {
      &functions::negate,   &functions::abs,     &functions::square, &functions::sqrt,       &functions::relu,
      &functions::is_nan,   &functions::add,     &functions::divide, &functions::subtract,   &functions::multiply,
      &functions::maximum,  &functions::minimum, &functions::equal,  &functions::not_equal,  &functions::less,
      &functions::greater,  &functions::where,   &functions::rsqrt,  &functions::less_equal, &functions::greater_equal,
      &functions::is_finite};
  const double special[] = {0.0, -0.0, 1.0, -1.0, 1e-40, -1e-40, 3e38, -3e38, kInfinity, -kInfinity, kNaN};
  for (int seed = 0; seed < cases(300); ++seed) {
    std::mt19937 engine(static_cast<unsigned>(seed));
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(engine() % n); };
    const auto one_of = [&](const auto& choices) { return choices[below(std::size(choices))]; };
    constexpr std::int64_t kSizes[] = {1, 5, 16, 67, 256, 321, 1024, 1500};
    const std::int64_t n = one_of(kSizes);
    Builder b(Shape{n}, 0);
    std::vector<std::uint16_t> floats, booleans;
    for (int r = 0; r < 3; ++r) {
      const auto memory = std::make_shared<Memory>(DType::f32, n);
      for (std::int64_t i = 0; i < n; ++i) {
        memory->set(i, below(2) == 0 ? one_of(special) : static_cast<double>(below(2001)) * 0.37 - 370);
      }
      floats.push_back(b.read(memory, contiguous(Shape{n})));
    }
    const auto some = [&] {  // mostly the latest values
      if (below(4) == 0) return b.constant(DType::f32, one_of(special));
      return floats[floats.size() - 1 - below(below(3) == 0 ? 3 : 1)];
    };
    for (int k = 0; k < 25; ++k) {
      const ScalarFunction& f = *one_of(all);
      if (&f == &functions::where && booleans.empty()) continue;
      const std::uint16_t a = &f == &functions::where ? one_of(booleans) : some();
      const std::uint16_t second = some(), value = b.apply(f, a, second, some());
      (f.rules.gives == Gives::boolean ? booleans : floats).push_back(value);
    }
    b.write(floats.back());
    b.write(one_of(floats));
    if (!booleans.empty()) b.write(one_of(booleans));
    const auto expected = computed_by_loops(b);
    for_each_set([&](InstructionSet set) {
      cpu::run(b.expression, Stream(Device::cpu()));
      for (std::size_t w = 0; w < b.written.size(); ++w) {
        Memory wanted(b.written[w]->dtype(), n);
        std::memcpy(wanted.tensor().raw(), expected[b.expression.writes[w].value].data(), wanted.bytes().size() - 64);
        for (std::int64_t i = 0; i < n; ++i) {
          const double x = b.written[w]->get(i), y = wanted.get(i);
          ASSERT_TRUE((std::isnan(x) && std::isnan(y)) || (x == y && std::signbit(x) == std::signbit(y)))
              << "seed " << seed << ", instruction set " << set << ", write " << w << ", element " << i << ": " << x
              << " instead of " << y;
        }
      }
    });
  }
}

float without_subnormals(float x) {
  if (!cpu::FlushSubnormals::kFlushes) return x;
  return std::abs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0f, x) : x;
}

// Products of 16-bit numbers, including ties, overflow, underflow and NaN.
TEST(ChainTest, RoundsToSixteenBits) {
  constexpr std::int64_t kCount = 20000;
  for (const DType dtype : {DType::bf16, DType::f16}) {
    std::mt19937 engine(1);
    Builder b(Shape{kCount}, 0);
    std::vector<std::uint16_t> factors;
    for (int r = 0; r < 2; ++r) {
      const auto memory = std::make_shared<Memory>(dtype, kCount);
      for (std::int64_t i = 0; i < kCount; ++i) {
        static_cast<std::uint16_t*>(memory->tensor().raw())[i] = static_cast<std::uint16_t>(engine());
      }
      factors.push_back(b.read(memory, contiguous(Shape{kCount})));
    }
    const auto product = b.write(b.cast(b.apply(test_multiply, factors[0], factors[1]), DType::f32));
    for_each_set([&](InstructionSet set) {
      cpu::run(b.expression, Stream(Device::cpu()));
      for (std::int64_t i = 0; i < kCount; ++i) {
        const auto exact = without_subnormals(static_cast<float>(b.read_memory[0]->get(i) * b.read_memory[1]->get(i)));
        const double wanted = rounded_to(dtype, static_cast<double>(exact)), found = product->get(i);
        ASSERT_TRUE((std::isnan(found) && std::isnan(wanted)) ||
                    (found == wanted && std::signbit(found) == std::signbit(wanted)))
            << name_of(dtype) << ", instruction set " << set << ": " << exact << " became " << found;
      }
    });
  }
}

// Flushed to zero in every thread during the work, and in no thread after it.
TEST(ChainTest, SubnormalResultsAreZero) {
  if (!cpu::FlushSubnormals::kFlushes) GTEST_SKIP() << "this processor's kernels keep them";
  constexpr std::int64_t kCount = std::int64_t{1} << 20;
  Builder b(Shape{kCount}, 0);
  const auto memory = std::make_shared<Memory>(DType::f32, kCount);
  for (std::int64_t i = 0; i < kCount; ++i) memory->set(i, i % 2 == 0 ? 1e-30 : 1e-40);
  const std::uint16_t x = b.read(memory, contiguous(Shape{kCount}));
  const auto product = b.write(b.apply(test_multiply, x, b.constant(DType::f32, 1e-9)));
  const auto sum = b.write(b.apply(test_add, x, b.constant(DType::f32, 1)));
  const auto same = b.write(b.apply(test_add, x, b.constant(DType::f32, 0)));
  const auto exponential = b.write(b.apply(test_exp, b.constant(DType::f32, -100)));
  cpu::run(b.expression, Stream(Device::cpu()));
  for (std::int64_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(product->get(i), 0) << i;
    ASSERT_EQ(sum->get(i), 1) << i;
    ASSERT_EQ(same->get(i), i % 2 == 0 ? static_cast<double>(1e-30f) : 0) << i;
    ASSERT_EQ(exponential->get(i), 0) << i;
  }
  volatile float least = std::numeric_limits<float>::min();
  EXPECT_GT(least / 2, 0) << "the caller's arithmetic is as it was";
}

}  // namespace
}  // namespace giro::test
