#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <giro/runtime/error.h>
#include <giro/runtime/stream.h>

#include "kernels/cpu/team.h"
#include "kernels/expr/expression_op.h"
#include "kernels/expr/instruction_sets.h"
#include "tests/kernels/expr/expressions.h"
#include "tests/support/expect_error.h"
#include "tests/support/sanitized.h"

namespace giro::test {
namespace {

using expr::InstructionSet;
constexpr DType kAll[] = {DType::f32, DType::bf16, DType::f16, DType::f64,
                          DType::i32, DType::i64,  DType::u8,  DType::boolean};
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Calls f once per instruction set that the machine supports.
void for_each_set(const std::function<void()>& f) {
  const InstructionSet before = expr::instruction_set();
  for (const InstructionSet set : {expr::kBaseline, expr::kAvx2, expr::kAvx512}) {
    if (expr::use_instruction_set(set)) f();
  }
  expr::use_instruction_set(before);
}

// Runs the expression with each instruction set, on one thread and on two. All runs must give the same bits.
void run(const Builder& b) {
  std::vector<Memory::Bytes> first, inputs;
  for (const auto& memory : b.read_memory) inputs.push_back(memory->bytes());
  for_each_set([&] {
    for (std::size_t r = 0; r < inputs.size(); ++r) {
      if (!inputs[r].empty()) std::memcpy(b.read_memory[r]->tensor().raw(), inputs[r].data(), inputs[r].size());
    }
    const int threads = expr::instruction_set() == expr::kBaseline ? 1 : 2;
    const cpu::ThreadLimit limit(threads);
    cpu::run(b.expression, Stream(Device::cpu()));
    for (std::size_t w = 0; w < b.written.size(); ++w) {
      if (first.size() == w) first.push_back(b.written[w]->bytes());
      EXPECT_TRUE(b.written[w]->bytes() == first[w])
          << "other bits with instruction set " << expr::instruction_set() << " in " << threads << " threads";
    }
  });
}

std::string code_of(const Expression& e) {
  std::string text;
  for (const Instruction& c : e.code) {
    const char* const kinds[] = {"read", "constant", "place", "apply", "cast", "reduce"};
    text += fmt::format("\n  {}: {} {} {}, combiner {} of {} {} {}, index {}, number {}", &c - e.code.data(),
                        name_of(c.dtype), kinds[static_cast<std::size_t>(c.kind)],
                        c.function != nullptr ? c.function->name : "", static_cast<int>(c.combiner), c.operands[0],
                        c.operands[1], c.operands[2], c.index, c.number);
  }
  for (const auto& write : e.writes) text += fmt::format("\n  write {}", write.value);
  return text;
}

// The results must have the same bits as from plain loops.
void expect_exact(const Builder& b, const std::string& what) {
  const std::vector<Memory> expected = computed_plainly(b);
  run(b);
  for (std::size_t w = 0; w < expected.size(); ++w) {
    for (std::int64_t i = 0; i < expected[w].count(); ++i) {
      const double found = b.written[w]->get(i), wanted = expected[w].get(i);
      ASSERT_TRUE(found == wanted || (std::isnan(found) && std::isnan(wanted)))
          << what << ", write " << w << ", element " << i << ": " << found << " instead of " << wanted;
    }
    EXPECT_TRUE(std::equal(expected[w].bytes().end() - 64, expected[w].bytes().end(), b.written[w]->bytes().end() - 64))
        << what << ": a write past the end";
  }
}

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  int below(int n) { return static_cast<int>(engine_() % static_cast<unsigned>(n)); }
  template <class C>
  auto one_of(const C& choices) {
    return choices[static_cast<std::size_t>(below(static_cast<int>(std::size(choices))))];
  }

 private:
  std::mt19937 engine_;
};

std::shared_ptr<Memory> small_numbers(DType dtype, std::int64_t count, Random& random) {
  auto memory = std::make_shared<Memory>(dtype, count);
  for (std::int64_t i = 0; i < count; ++i) {
    memory->set(i, dtype == DType::boolean ? random.below(2)
                   : dtype == DType::u8    ? random.below(4)
                                           : random.below(5) - 2);
  }
  return memory;
}

// Reads memory with its axes in random order: some backward, some broadcast, some with missing elements, and with gaps
// between elements.
std::uint16_t random_read(Builder& b, DType dtype, Random& random) {
  const Shape& space = b.expression.space;
  const int rank = static_cast<int>(space.rank());
  std::vector<int> order(static_cast<std::size_t>(rank));
  for (int a = 0; a < rank; ++a) order[static_cast<std::size_t>(a)] = a;
  if (random.below(3) == 0) {
    for (int a = 0; a < rank; ++a)
      std::swap(order[static_cast<std::size_t>(a)], order[static_cast<std::size_t>(random.below(rank))]);
  }
  Layout layout;
  std::int64_t count = random.below(5) == 0 ? 2 : 1;
  layout.offset = random.below(3);
  for (int k = rank - 1; k >= 0; --k) {
    const int a = order[static_cast<std::size_t>(k)];
    if (random.below(4) == 0) continue;
    layout.strides[static_cast<std::size_t>(a)] = count;
    if (random.below(8) == 0) {
      layout.strides[static_cast<std::size_t>(a)] = -count;
      layout.offset += count * std::max<std::int64_t>(0, space[a] - 1);
    }
    std::int64_t there = std::max<std::int64_t>(1, space[a]);
    if (random.below(5) == 0) {
      Layout::Bounds& bounds = layout.bounds[static_cast<std::size_t>(a)];
      bounds.begin = random.below(static_cast<int>(there));
      if (random.below(2) == 0) bounds.end = bounds.begin + 1 + random.below(static_cast<int>(there - bounds.begin));
      there = std::min(bounds.end, there) - bounds.begin;
      // The memory holds only the elements that exist.
      const std::int64_t stride = layout.strides[static_cast<std::size_t>(a)];
      const std::int64_t first =
          stride < 0 ? std::max<std::int64_t>(0, space[a] - 1) - (bounds.begin + there - 1) : bounds.begin;
      layout.offset -= first * count;
    }
    count *= there;
  }
  return b.read(small_numbers(dtype, count + 3, random), layout);
}

// The values stay small whole numbers, so additions in any order give the same result.
Builder random_expression(Random& random) {
  const int rank = random.below(5);
  std::vector<std::int64_t> sizes;
  std::int64_t count = 1;
  for (int a = 0; a < rank; ++a) {
    const int choices[] = {0, 1, 2, 3, 7, 16, 33, 40, 300, 1024, 1500, 5000};
    std::int64_t size = random.one_of(choices);
    if (size == 0 && random.below(3) != 0) size = 5;
    if (count * size > 40000) size = 2;
    count *= std::max<std::int64_t>(1, size);
    sizes.push_back(size);
  }
  const auto reduced = static_cast<std::size_t>(random.below(rank + 1));
  Builder b(Shape(std::span<const std::int64_t>(sizes)), reduced);
  std::vector<std::uint16_t> values;
  const auto some = [&] { return random.one_of(values); };
  const auto dtype_of_value = [&](std::uint16_t v) { return b.expression.code[v].dtype; };
  const auto as = [&](std::uint16_t v, DType dtype) { return dtype_of_value(v) == dtype ? v : b.cast(v, dtype); };
  for (int r = 1 + random.below(3); r > 0; --r) values.push_back(random_read(b, random.one_of(kAll), random));
  for (int k = 1 + random.below(10); k > 0; --k) {
    const std::uint16_t x = some(), y = some();
    const DType dtype = dtype_of_value(x);
    const DType number = dtype == DType::boolean ? DType::f32 : dtype;
    switch (random.below(11)) {
      case 0:
        values.push_back(b.constant(dtype, random.below(2)));
        break;
      case 1:
        values.push_back(b.apply(test_less, x, as(y, dtype)));
        break;
      case 2:
        values.push_back(b.apply(test_where, as(some(), DType::boolean), x, as(y, dtype)));
        break;
      case 3:
        values.push_back(as(x, random.one_of(kAll)));
        break;
      case 4:
      case 5: {
        // Reduces values that are surely small: whether x is less than 1.
        const std::uint16_t small = b.cast(b.apply(test_less, x, b.constant(dtype, 1)), random.one_of(kAll));
        const Combiner combiners[] = {Combiner::sum, Combiner::product, Combiner::max,    Combiner::min,
                                      Combiner::any, Combiner::all,     Combiner::argmax, Combiner::argmin};
        const Combiner combiner = random.one_of(combiners);
        const bool is_place = combiner == Combiner::argmax || combiner == Combiner::argmin;
        if (is_place && count > 0 && b.expression.space.count() == 0) break;
        const std::uint16_t of =
            combiner == Combiner::sum && is_16_bit(dtype_of_value(small)) ? b.cast(small, DType::f32) : small;
        if (combiner == Combiner::product && dtype_of_value(of) == DType::boolean) break;
        values.push_back(b.reduce(is_place ? combiner : combiner,
                                  is_place || combiner == Combiner::max || combiner == Combiner::min ? x : of));
        break;
      }
      case 6: {
        Layout layout;
        layout.offset = random.below(5);
        for (int a = 0; a < rank; ++a) layout.strides[static_cast<std::size_t>(a)] = random.below(3);
        values.push_back(b.place(layout));
        break;
      }
      case 7:
        values.push_back(b.apply(test_maximum, as(x, number), as(y, number)));
        break;
      default:
        values.push_back(b.apply(test_add, as(x, number), as(y, number)));
    }
  }
  for (int w = 1 + random.below(3); w > 0; --w) b.write(some());
  return b;
}

TEST(CpuExpressionTest, RandomExpressionsAreExact) {
  for (int seed = 0; seed < cases(600); ++seed) {
    Random random(static_cast<unsigned>(seed));
    const Builder b = random_expression(random);
    expect_exact(b, "seed " + std::to_string(seed) + ", space " + to_string(b.expression.space) + ", reduced " +
                        std::to_string(b.expression.reduced) + code_of(b.expression));
    if (HasFatalFailure()) return;
  }
}

// Numbers of both signs and of many magnitudes.
std::shared_ptr<Memory> numbers(DType dtype, std::int64_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<double> normal;
  auto memory = std::make_shared<Memory>(dtype, count);
  for (std::int64_t i = 0; i < count; ++i) memory->set(i, normal(engine));
  return memory;
}

Layout transposed(std::int64_t rows) {
  Layout layout;
  layout.strides = {1, rows};
  return layout;
}

// Sums of f32 are almost as accurate as sums in double: up to 32 additions and 5 more across the lanes are in f32, the
// others in double. The order depends only on the space, so contiguous rows, columns, and parts of a row in several
// threads give the same bits.
TEST(CpuExpressionTest, SumsAreAccurateAndInOneOrder) {
  for (const std::int64_t n : {1, 31, 33, 1000, 1024, 1025, 5000, 100000}) {
    const std::int64_t rows = n > 5000 ? 20 : 40;
    const auto x = numbers(DType::f32, rows * n, 1);
    const auto x_transposed = std::make_shared<Memory>(DType::f32, rows * n);
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < n; ++c) x_transposed->set(c * rows + r, x->get(r * n + c));
    }
    Builder by_rows(Shape{rows, n}, 1), by_columns(Shape{rows, n}, 1);
    const auto sums = by_rows.write(by_rows.reduce(Combiner::sum, by_rows.read(x, contiguous(Shape{rows, n}))), true);
    const auto same =
        by_columns.write(by_columns.reduce(Combiner::sum, by_columns.read(x_transposed, transposed(rows))), true);
    run(by_rows);
    run(by_columns);
    for (std::int64_t r = 0; r < rows; ++r) {
      double sum = 0, size = 0;
      for (std::int64_t c = 0; c < n; ++c) {
        sum += x->get(r * n + c);
        size += std::abs(x->get(r * n + c));
      }
      EXPECT_NEAR(sums->get(r), sum,
                  0x1p-24 * (std::abs(sum) + (static_cast<double>(std::min<std::int64_t>(n, 32)) + 5) * size));
      EXPECT_EQ(sums->get(r), same->get(r)) << n << " elements, row " << r;
    }
    Builder alone(Shape{n}, 1);
    Layout first;
    first.strides = {1};
    const auto sum = alone.write(alone.reduce(Combiner::sum, alone.read(x, first)), true);
    run(alone);
    EXPECT_EQ(sum->get(0), sums->get(0)) << n << " elements";
  }
}

// Along rows, a chain adds up its results while they are in registers.
TEST(CpuExpressionTest, SumsOfComputedValuesUseTheSameOrder) {
  for (const std::int64_t n : {100, 128, 129, 300, 1000, 1024, 1025, 5000, 100000}) {
    const std::int64_t rows = 20;
    const auto x = numbers(DType::f32, rows * n, 4), squares = std::make_shared<Memory>(DType::f32, rows * n);
    for (std::int64_t i = 0; i < rows * n; ++i) squares->set(i, x->get(i) * x->get(i));
    const Layout layout = contiguous(Shape{rows, n});
    for (const bool is_needed : {false, true}) {
      Builder computed(Shape{rows, n}, 1), read(Shape{rows, n}, 1);
      const std::uint16_t v = computed.read(x, layout), square = computed.apply(test_multiply, v, v);
      const auto sums = computed.write(computed.reduce(Combiner::sum, square), true);
      if (is_needed) computed.write(square);
      const auto same = read.write(read.reduce(Combiner::sum, read.read(squares, layout)), true);
      run(computed);
      run(read);
      for (std::int64_t r = 0; r < rows; ++r) EXPECT_EQ(sums->get(r), same->get(r)) << n << " elements, row " << r;
      if (!is_needed) continue;
      EXPECT_TRUE(
          std::equal(squares->bytes().begin(), squares->bytes().end() - 64, computed.written[1]->bytes().begin()));
    }
  }
}

// So large that aligned stores bypass the caches, and inputs are prefetched.
TEST(CpuExpressionTest, LargeArrays) {
  const std::int64_t n = (std::int64_t{5} << 20) + 37;
  const auto x = numbers(DType::f32, n + 3, 5), y = numbers(DType::f32, n + 3, 6);
  for (const std::int64_t begin : {0, 3}) {
    Layout layout = contiguous(Shape{n});
    layout.offset = begin;
    const auto to = std::make_shared<Memory>(DType::f32, n + begin);
    Builder b(Shape{n}, 0);
    std::uint16_t value = b.read(x, layout);
    const std::uint16_t other = b.read(y, layout);
    for (int k = 0; k < 8; ++k) value = b.apply(k % 2 == 0 ? test_multiply : test_add, value, other);
    b.write(value, to, layout);
    run(b);
    for (std::int64_t i = begin; i < n + begin; i += test::kStride) {
      float expected = static_cast<float>(x->get(i));
      const float with = static_cast<float>(y->get(i));
      for (int k = 0; k < 8; ++k) expected = k % 2 == 0 ? expected * with : expected + with;
      ASSERT_EQ(to->get(i), expected) << "element " << i << " from " << begin;
    }
  }
}

// Softmax and LayerNorm along columns, and along rows that fit one tile, fit several tiles, or are too long to keep.
TEST(CpuExpressionTest, SeveralPassesOverARow) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const bool columns : {false, true}) {
      for (const std::int64_t n : {1, 10, 700, 3000, 10000, 40000, 70000}) {
        const std::int64_t rows = n == 10000 || n == 70000 ? 3 : n > 3000 ? 17 : 33;  // threads share long rows
        const auto x = numbers(dtype, rows * n, 2);
        const Layout layout = columns ? transposed(rows) : contiguous(Shape{rows, n});
        Builder b(Shape{rows, n}, 1);
        const std::uint16_t v = b.read(x, layout);
        const std::uint16_t e = b.apply(test_exp, b.apply(test_subtract, v, b.reduce(Combiner::max, v)));
        const auto softmax = std::make_shared<Memory>(dtype, rows * n),
                   norm = std::make_shared<Memory>(dtype, rows * n);
        b.write(b.apply(test_divide, e, b.reduce(Combiner::sum, e)), softmax, layout);
        const std::uint16_t count = b.constant(dtype, static_cast<double>(n));
        const std::uint16_t d = b.apply(test_subtract, v, b.apply(test_divide, b.reduce(Combiner::sum, v), count));
        const std::uint16_t variance =
            b.apply(test_divide, b.reduce(Combiner::sum, b.apply(test_multiply, d, d)), count);
        b.write(b.apply(test_multiply, d, b.apply(test_rsqrt, b.apply(test_add, variance, b.constant(dtype, 0.25)))),
                norm, layout);
        run(b);
        for (std::int64_t r = 0; r < rows; ++r) {
          const auto at = [&](std::int64_t c) { return columns ? c * rows + r : r * n + c; };
          long double largest = -kInfinity, sum = 0, mean = 0, square = 0;
          for (std::int64_t c = 0; c < n; ++c) {
            largest = std::max<long double>(largest, x->get(at(c)));
          }
          for (std::int64_t c = 0; c < n; ++c) {
            sum += std::exp(x->get(at(c)) - largest);
            mean += x->get(at(c)) / static_cast<long double>(n);
          }
          for (std::int64_t c = 0; c < n; ++c) {
            square += (x->get(at(c)) - mean) * (x->get(at(c)) - mean) / static_cast<long double>(n);
          }
          const double unit = dtype == DType::f32 ? 0x1p-24 : 0x1p-52;
          for (std::int64_t c = 0; c < n; ++c) {
            const double value = x->get(at(c)), below = static_cast<double>(value - largest);
            const auto wanted = static_cast<double>(std::exp(value - largest) / sum);
            const auto deviation = static_cast<double>(value - mean),
                       scale = static_cast<double>(1 / std::sqrt(square + 0.25L));
            // The rounding of the exponent, 2 units of exp, 40 of the sum, and the quotient.
            ASSERT_NEAR(softmax->get(at(c)), wanted, unit * wanted * (std::abs(below) + 45)) << r << ' ' << c;
            ASSERT_NEAR(norm->get(at(c)), deviation * scale, unit * scale * (40 + 60 * std::abs(deviation)));
          }
        }
      }
    }
  }
}

TEST(CpuExpressionTest, OutputMayReuseInputMemory) {
  for (const std::int64_t n : {7, 300, 5000, 70000}) {
    const auto x = numbers(DType::f32, 4 * n, 3);
    const Shape shape{4, n};
    Builder b(shape, 1);
    const std::uint16_t v = b.read(x, contiguous(shape));
    const std::uint16_t twice = b.apply(test_add, v, v);
    const std::uint16_t rest = b.apply(test_subtract, twice, b.reduce(Combiner::max, v));
    const auto other = b.write(b.apply(test_multiply, v, rest));
    b.write(rest, x, contiguous(shape));
    expect_exact(b, "in place, " + std::to_string(n));
  }
}

TEST(CpuExpressionTest, NotANumber) {
  for (const bool columns : {false, true}) {
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
      const std::int64_t n = 1500, rows = 20;
      const auto x = numbers(dtype, rows * n, 4);
      for (std::int64_t r = 0; r < rows; r += 2) x->set(columns ? (70 * r + 3) * rows + r : r * n + 70 * r + 3, kNaN);
      x->set(columns ? 5 * rows + 2 : 2 * n + 5, kNaN);
      Builder b(Shape{rows, n}, 1);
      const std::uint16_t v = b.read(x, columns ? transposed(rows) : contiguous(Shape{rows, n}));
      for (const Combiner c : {Combiner::max, Combiner::min, Combiner::argmax, Combiner::argmin}) {
        b.write(b.reduce(c, v), true);
      }
      expect_exact(b, "NaN");
      EXPECT_TRUE(std::isnan(b.written[0]->get(2)));
      EXPECT_EQ(b.written[2]->get(2), 5);
    }
  }
}

TEST(CpuExpressionTest, NothingToReduce) {
  const auto none = std::make_shared<Memory>(DType::f32, 0);
  Builder b(Shape{3, 0}, 1);
  const std::uint16_t v = b.read(none, contiguous(Shape{3, 0}));
  const Combiner combiners[] = {Combiner::sum, Combiner::product, Combiner::max,
                                Combiner::min, Combiner::any,     Combiner::all};
  const double expected[] = {0, 1, -kInfinity, kInfinity, 0, 1};
  for (const Combiner c : combiners) b.write(b.reduce(c, v), true);
  run(b);
  for (std::size_t c = 0; c < std::size(combiners); ++c) {
    for (std::int64_t r = 0; r < 3; ++r) EXPECT_EQ(b.written[c]->get(r), expected[c]) << c;
  }
  Builder place(Shape{3, 0}, 1);
  place.write(place.reduce(Combiner::argmax, place.read(none, contiguous(Shape{3, 0}))), true);
  expect_error(ErrorCode::invalid_argument, {"argmax"}, [&] { run(place); });
}

TEST(CpuExpressionTest, RejectsInvalidExpressions) {
  const Stream stream(Device::cpu());
  Builder wrong(Shape{4}, 0);
  const auto bytes = std::make_shared<Memory>(DType::u8, 4);
  const std::uint16_t v = wrong.read(bytes, contiguous(Shape{4}));
  wrong.write(wrong.apply(test_exp, v));
  expect_error(ErrorCode::dtype_mismatch, {"exp", "u8"}, [&] { cpu::run(wrong.expression, stream); });
  Builder other(Shape{4}, 0);
  other.write(other.read(bytes, contiguous(Shape{4})), std::make_shared<Memory>(DType::f32, 4), contiguous(Shape{4}));
  expect_error(ErrorCode::dtype_mismatch, {"u8", "f32"}, [&] { cpu::run(other.expression, stream); });
  Builder later(Shape{4}, 0);
  later.write(later.cast(later.read(bytes, contiguous(Shape{4})), DType::f32));
  later.expression.code[1].operands[0] = 1;
  expect_error(ErrorCode::invalid_argument, {"operand"}, [&] { cpu::run(later.expression, stream); });
}

// Every conversion, with values at the ends of the dtypes' ranges.
TEST(CpuExpressionTest, Casts) {
  const double values[] = {0,     1,          -1,      0.5,      -0.75,     3.9,  254.6,       255,  256,
                           -3.99, 2147483648, 1e30,    -1e30,    kInfinity, kNaN, -2147483649, 7e4,  1e-8,
                           65519, 65520,      6.1e-05, 5.96e-08, 2.9e-08,   100,  -65504,      -0.0, 3e38};
  for (const DType from : kAll) {
    for (const DType to : kAll) {
      const auto x = std::make_shared<Memory>(from, std::size(values));
      for (std::size_t i = 0; i < std::size(values); ++i) {
        const bool fits = is_floating(from) || (values[i] >= (from == DType::u8 || from == DType::boolean ? 0 : -1e9) &&
                                                values[i] <= (from == DType::boolean ? 1 : 255));
        x->set(static_cast<std::int64_t>(i), fits ? values[i] : 1);
      }
      Builder b(Shape{std::size(values)}, 0);
      const auto y = b.write(b.cast(b.read(x, contiguous(b.expression.space)), to));
      run(b);
      for (std::int64_t i = 0; i < x->count(); ++i) {
        const double v = x->get(i), found = y->get(i);
        const auto bounded = [&](double low, double high) {
          return std::isnan(v) ? 0 : std::min(std::max(std::trunc(v), low), high);
        };
        double wanted = 0;
        if (to == DType::boolean) {
          wanted = v != 0;
        } else if (is_floating(to)) {
          wanted = rounded_to(to, v);
        } else if (!is_floating(from)) {
          wanted = to == DType::u8 ? static_cast<std::uint8_t>(static_cast<std::int64_t>(v)) : v;
        } else if (to == DType::u8) {
          wanted = bounded(0, 255);
        } else if (to == DType::i32) {
          wanted = bounded(-2147483648.0, 2147483647.0);
        } else {
          wanted = bounded(-0x1p63, 0x1p63);
        }
        EXPECT_TRUE(found == wanted || (std::isnan(found) && std::isnan(wanted)))
            << name_of(from) << " to " << name_of(to) << ": " << v << " became " << found << ", not " << wanted;
      }
    }
  }
}

}  // namespace
}  // namespace giro::test
