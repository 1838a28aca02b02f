#include "kernels/expr/fusion.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <ranges>
#include <utility>
#include <vector>

#include "kernels/expr/fusion_axes.h"
#include "kernels/expr/table.h"
#include "runtime/program/overlap.h"

namespace giro::expr {
namespace {

using Kind = Instruction::Kind;
constexpr std::size_t kMaxInstructions = 192, kMaxReads = 24;
constexpr std::size_t kMaxReductions = 16;  // what fits into a block's shared memory

bool same_memory(const Tensor& a, const Tensor& b) { return a.place() == b.place() && a.dtype() == b.dtype(); }

// Whether two parts of one array, with the same strides along the axes of a space, have no element in common: no
// difference of coordinates gives the distance between them.
bool are_disjoint(const Access& one, const Access& other, const Shape& space) {
  const Layout &a = one.layout, &b = other.layout;
  if (!same_memory(one.memory, other.memory) || a.strides != b.strides) return false;
  std::vector<std::pair<std::int64_t, std::int64_t>> steps;  // per axis: the length of a step, and how many
  for (std::size_t axis = 0; axis < space.rank(); ++axis) {
    steps.emplace_back(std::abs(a.strides[axis]), space.begin()[axis] - 1);
  }
  std::sort(steps.begin(), steps.end(), std::greater<>());
  const auto is_reached = [&](const auto& self, std::int64_t distance, std::size_t axis) -> bool {
    if (axis == steps.size() || steps[axis].first == 0) return distance == 0;
    const auto [step, most] = steps[axis];
    std::int64_t reach = 0;  // by the following axes
    for (std::size_t next = axis + 1; next < steps.size(); ++next) reach += steps[next].first * steps[next].second;
    const std::int64_t first = std::max(-most, (distance - reach) / step - 1);
    const std::int64_t last = std::min(most, (distance + reach) / step + 1);
    for (std::int64_t k = first; k <= last; ++k) {
      if (self(self, distance - k * step, axis + 1)) return true;
    }
    return false;
  };
  return !is_reached(is_reached, b.offset - a.offset, 0);
}

// Merges expressions over a common space into one. Reads are shared.
class FusedBuilder {
 public:
  // `parts` will be added.
  FusedBuilder(const std::vector<Axis>& axes, const std::array<const Expression*, 2>& parts) : axes_(axes) {
    std::vector<std::int64_t> sizes;
    for (const Axis& axis : axes) sizes.push_back(axis.size), result_.reduced += axis.is_reduced;
    result_.space = Shape(sizes);
    result_.reads.reserve(parts[0]->reads.size() + parts[1]->reads.size());
    result_.code.reserve(parts[0]->code.size() + parts[1]->code.size());
    result_.writes.reserve(parts[0]->writes.size() + parts[1]->writes.size());
  }

  // False if the expression would read memory that an earlier one writes in another order.
  bool add(const Expression& expression, int Axis::*of) {
    const std::size_t written = result_.writes.size();
    std::vector<std::uint16_t> numbers;
    numbers.reserve(expression.code.size());
    for (Instruction instruction : expression.code) {
      if (instruction.kind == Kind::read) {
        const Access& access = expression.reads[instruction.index];
        const Access read{access.memory, to_common_axes(access.layout, axes_, of)};
        bool overlaps = false;
        const auto value = written_value(read, written, overlaps);
        if (overlaps) return false;
        numbers.push_back(value ? *value : push_read(read));
        continue;
      }
      if (instruction.kind == Kind::place) {
        result_.places.push_back(to_common_axes(expression.places[instruction.index], axes_, of));
        instruction.index = static_cast<std::uint16_t>(result_.places.size() - 1);
      }
      for (std::uint16_t& operand : operands_of(instruction)) operand = numbers[operand];
      numbers.push_back(push(instruction));
    }
    for (const Expression::Write& write : expression.writes) {
      result_.writes.push_back({{write.to.memory, to_common_axes(write.to.layout, axes_, of)}, numbers[write.value]});
    }
    return true;
  }

  Expression take() && { return std::move(result_); }

 private:
  std::optional<std::uint16_t> written_value(const Access& read, std::size_t written, bool& overlaps) const {
    for (std::size_t i = 0; i < written; ++i) {
      const Expression::Write& write = result_.writes[i];
      if (write.to == read) return write.value;
      overlaps |= detail::overlap(write.to.memory, read.memory) && !are_disjoint(write.to, read, result_.space);
    }
    return std::nullopt;
  }

  std::uint16_t push_read(const Access& read) {
    const auto known = std::ranges::find(result_.reads, read);
    const auto index = static_cast<std::uint16_t>(known - result_.reads.begin());
    if (known == result_.reads.end()) result_.reads.push_back(read);
    return push({.kind = Kind::read, .dtype = read.memory.dtype(), .index = index});
  }

  // Returns the number of an equal instruction if there is one.
  std::uint16_t push(const Instruction& given) {
    if (const auto same = unchanged(given)) return *same;
    const Instruction instruction = folded(given);
    // 0 and -0 are equal numbers, but not equal constants.
    const auto same = [&](const Instruction& other) {
      return other == instruction && std::signbit(other.number) == std::signbit(instruction.number);
    };
    const auto found = std::find_if(result_.code.begin(), result_.code.end(), same);
    const auto number = static_cast<std::uint16_t>(found - result_.code.begin());
    if (found == result_.code.end()) result_.code.push_back(instruction);
    return number;
  }

  bool is_constant(std::uint16_t value) const { return result_.code[value].kind == Kind::constant; }

  // For a product with 1, the other operand. It must be the result of arithmetic, which is already flushed: the CPU's
  // product could flush any other subnormal value to zero.
  std::optional<std::uint16_t> unchanged(const Instruction& instruction) const {
    if (instruction.kind != Kind::apply || instruction.function != &functions::multiply) return std::nullopt;
    for (std::size_t k : {0, 1}) {
      const Instruction &factor = result_.code[instruction.operands[k]],
                        &other = result_.code[instruction.operands[1 - k]];
      const bool is_one = is_floating(factor.dtype) ? factor.number == 1 : factor.integer == 1;
      const bool is_arithmetic =
          !is_floating(other.dtype) || (other.kind == Kind::apply && !other.function->rules.is_exact);
      if (factor.kind == Kind::constant && is_one && is_arithmetic) return instruction.operands[1 - k];
    }
    return std::nullopt;
  }

  // Folds products and quotients of two f32 constants, whose bits are the same wherever they are computed.
  Instruction folded(const Instruction& instruction) const {
    const bool divides = instruction.function == &functions::divide;
    if (instruction.kind != Kind::apply || (instruction.function != &functions::multiply && !divides) ||
        instruction.dtype != DType::f32 || !is_constant(instruction.operands[0]) ||
        !is_constant(instruction.operands[1])) {
      return instruction;
    }
    const auto number = [&](std::size_t k) { return static_cast<float>(result_.code[instruction.operands[k]].number); };
    const float folded = divides ? number(0) / number(1) : number(0) * number(1);
    if (std::fpclassify(folded) == FP_SUBNORMAL) return instruction;  // the CPU's kernels flush it to 0
    return {.kind = Kind::constant, .dtype = DType::f32, .number = folded};
  }

  const std::vector<Axis>& axes_;
  Expression result_;
};

// Whether no element is overwritten before it is read, and no two writes overlap.
bool is_safe(const Expression& expression, const MemoryOf& memory_of) {
  const bool in_passes = reduces(expression);
  const auto placed = [&](const Access& access) { return Access{memory_of(access.memory), access.layout}; };
  std::vector<Access> reads, writes;
  reads.reserve(expression.reads.size());
  writes.reserve(expression.writes.size());
  for (const Access& read : expression.reads) reads.push_back(placed(read));
  for (const Expression::Write& write : expression.writes) writes.push_back(placed(write.to));
  for (std::size_t i = 0; i < writes.size(); ++i) {
    const Access& write = writes[i];
    for (std::size_t k = 0; k < i; ++k) {
      const Access& other = writes[k];
      if (detail::overlap(other.memory, write.memory) && !are_disjoint(other, write, expression.space)) return false;
    }
    for (const Access& read : reads) {
      if (!detail::overlap(read.memory, write.memory) || are_disjoint(read, write, expression.space)) continue;
      if (in_passes || read != write || !runs_along_all(expression, write.layout)) return false;
    }
  }
  return true;
}

// Whether one of the two expressions would be recomputed along an axis that it does not have. Values of rows are
// computed once, whatever the reduced axes.
bool is_recomputed(const std::vector<Axis>& axes, int Axis::*of) {
  const bool is_of_rows =
      std::none_of(axes.begin(), axes.end(), [&](const Axis& axis) { return axis.is_reduced && axis.*of >= 0; });
  return std::any_of(axes.begin(), axes.end(),
                     [&](const Axis& axis) { return axis.*of < 0 && !(axis.is_reduced && is_of_rows); });
}

std::optional<Fused> joined(const Expression& producer, const Expression& consumer, std::vector<Axis> axes,
                            const MemoryOf& memory_of) {
  if (axes.size() > Shape::kMaxRank || !order_reduced_axes(axes, producer, consumer)) return std::nullopt;
  FusedBuilder joined(axes, {&producer, &consumer});
  if (!joined.add(producer, &Axis::producer) || !joined.add(consumer, &Axis::consumer)) return std::nullopt;
  const bool repeats = is_recomputed(axes, &Axis::producer);
  if (is_recomputed(axes, &Axis::consumer) || (repeats && producer.code.size() > kMaxRecomputed)) return std::nullopt;
  Fused result{std::move(joined).take(), repeats};
  if (!is_safe(result.expression, memory_of)) return std::nullopt;
  return result;
}

// Matches axes by a value that p writes and c reads, or else by an array that both read, each element once.
std::optional<Fused> fuse_without_splitting(const Expression& p, const Expression& c, const MemoryOf& memory_of) {
  const auto is_of_both = [](const Axis& axis) { return axis.producer >= 0 && axis.consumer >= 0; };
  const auto fuse_by = [&](const auto& accesses, bool once) -> std::optional<Fused> {
    for (const Access& one : accesses) {
      for (const Access& other : c.reads) {
        if (!same_memory(one.memory, other.memory)) continue;
        auto axes = pair_axes(p, c, one.layout, other.layout);
        if (!axes) continue;
        if (once && !(std::ranges::all_of(*axes, is_of_both) && runs_along_all(p, one.layout))) continue;
        if (auto fused = joined(p, c, *std::move(axes), memory_of)) return fused;
      }
    }
    return std::nullopt;
  };
  if (auto fused = fuse_by(p.writes | std::views::transform(&Expression::Write::to), false)) return fused;
  return fuse_by(p.reads, true);
}

}  // namespace

std::optional<Fused> fuse(const Expression& producer, const Expression& consumer, const MemoryOf& memory_of) {
  if (producer.space.count() == 0 || consumer.space.count() == 0 ||
      producer.code.size() + consumer.code.size() > kMaxInstructions ||
      producer.reads.size() + consumer.reads.size() > kMaxReads ||
      reductions(producer) + reductions(consumer) > kMaxReductions) {
    return std::nullopt;
  }
  if (auto fused = fuse_without_splitting(producer, consumer, memory_of)) return fused;
  for (std::size_t w = 0; w < producer.writes.size(); ++w) {
    for (std::size_t r = 0; r < consumer.reads.size(); ++r) {
      if (!same_memory(producer.writes[w].to.memory, consumer.reads[r].memory)) continue;
      Expression p = producer, c = consumer;
      if (!split_matching_axes(p, p.writes[w].to.layout, c, c.reads[r].layout)) continue;
      if (auto fused = fuse_without_splitting(p, c, memory_of)) return fused;
    }
  }
  return std::nullopt;
}

Expression without_writes(const Expression& expression, const std::function<bool(const Access& to)>& is_dropped) {
  Expression result;
  result.space = expression.space;
  result.reduced = expression.reduced;
  result.reads.reserve(expression.reads.size());
  result.code.reserve(expression.code.size());
  std::vector<bool> used(expression.code.size());
  for (const Expression::Write& write : expression.writes) {
    if (!is_dropped(write.to)) used[write.value] = true;
  }
  for (std::size_t i = expression.code.size(); i-- > 0;) {
    if (!used[i]) continue;
    for (const std::uint16_t operand : operands_of(expression.code[i])) used[operand] = true;
  }
  std::vector<std::uint16_t> numbers(expression.code.size());
  for (std::size_t i = 0; i < expression.code.size(); ++i) {
    if (!used[i]) continue;
    Instruction instruction = expression.code[i];
    for (std::uint16_t& operand : operands_of(instruction)) operand = numbers[operand];
    if (instruction.kind == Kind::read) {
      result.reads.push_back(expression.reads[instruction.index]);
      instruction.index = static_cast<std::uint16_t>(result.reads.size() - 1);
    } else if (instruction.kind == Kind::place) {
      result.places.push_back(expression.places[instruction.index]);
      instruction.index = static_cast<std::uint16_t>(result.places.size() - 1);
    }
    numbers[i] = static_cast<std::uint16_t>(result.code.size());
    result.code.push_back(instruction);
  }
  for (const Expression::Write& write : expression.writes) {
    if (!is_dropped(write.to)) result.writes.push_back({write.to, numbers[write.value]});
  }
  return result;
}

Expression without_write(const Expression& expression, const Tensor& memory) {
  return without_writes(expression, [&](const Access& to) { return same_memory(to.memory, memory); });
}

}  // namespace giro::expr
