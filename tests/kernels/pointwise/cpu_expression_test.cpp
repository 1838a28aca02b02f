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

#include "kernels/cpu/expression.h"
#include "kernels/pointwise/instruction_sets.h"
#include "tests/expect_error.h"
#include "tests/kernels/pointwise/expressions.h"
#include "tests/sanitized.h"

namespace giro::test {
namespace {

using pointwise::InstructionSet;
constexpr DType kAll[] = {DType::f32, DType::bf16, DType::f16, DType::f64,
                          DType::i32, DType::i64,  DType::u8,  DType::boolean};
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// With each instruction set that the machine has.
void for_each_set(const std::function<void()>& f) {
  const InstructionSet before = pointwise::instruction_set();
  for (const InstructionSet set : {pointwise::kBaseline, pointwise::kAvx2, pointwise::kAvx512}) {
    if (pointwise::use_instruction_set(set)) f();
  }
  pointwise::use_instruction_set(before);
}

// Runs it with each instruction set: all give the same bits.
void run(const Builder& b) {
  std::vector<std::vector<std::byte>> first, inputs;
  for (const auto& memory : b.read_memory) inputs.push_back(memory->bytes());
  for_each_set([&] {
    for (std::size_t r = 0; r < inputs.size(); ++r) {
      if (!inputs[r].empty()) std::memcpy(b.read_memory[r]->tensor().raw(), inputs[r].data(), inputs[r].size());
    }
    cpu::run(b.expression, Stream(Device::cpu()));
    for (std::size_t w = 0; w < b.written.size(); ++w) {
      if (first.size() == w) first.push_back(b.written[w]->bytes());
      EXPECT_TRUE(b.written[w]->bytes() == first[w]) << "other bits with another instruction set";
    }
  });
}

std::string code_of(const Expression& e) {
  std::string text;
  for (std::size_t i = 0; i < e.code.size(); ++i) {
    const Instruction& c = e.code[i];
    const char* const kinds[] = {"read", "constant", "place", "apply", "cast", "reduce"};
    text += "\n  " + std::to_string(i) + ": " + std::string(name_of(c.dtype)) + " " +
            kinds[static_cast<std::size_t>(c.kind)] + " " +
            (c.function != nullptr ? c.function->name : std::to_string(static_cast<int>(c.combiner))) + " of";
    for (const auto operand : c.operands) text += " " + std::to_string(operand);
    text += ", " + std::to_string(c.index) + ", " + std::to_string(c.number);
  }
  for (const auto& write : e.writes) text += "\n  write " + std::to_string(write.value);
  return text;
}

// What it gives is what plain loops give, to the bit.
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

// Memory that is read along all axes in some order, some of them backward or broadcast, with gaps between elements.
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
    count *= std::max<std::int64_t>(1, space[a]);
  }
  return b.read(small_numbers(dtype, count + 3, random), layout);
}

// Values that stay small whole numbers, so that any order of additions gives the same.
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
        // Of what is known to be small: whether it is less than 1.
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
        values.push_back(b.apply(test_maximum, x, as(y, dtype)));
        break;
      default:
        values.push_back(b.apply(test_add, as(x, number), as(y, number)));
    }
  }
  for (int w = 1 + random.below(3); w > 0; --w) b.write(some());
  return b;
}

TEST(CpuExpressionTest, RandomOnesAreExact) {
  for (int seed = 0; seed < cases(600); ++seed) {
    Random random(static_cast<unsigned>(seed));
    const Builder b = random_expression(random);
    expect_exact(b, "seed " + std::to_string(seed) + ", space " + to_string(b.expression.space) + ", reduced " +
                        std::to_string(b.expression.reduced) + code_of(b.expression));
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace giro::test
