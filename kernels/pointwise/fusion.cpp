#include "kernels/pointwise/fusion.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "runtime/internal/overlap.h"

namespace giro::pointwise {
namespace {

using Kind = Instruction::Kind;
constexpr std::size_t kMostInstructions = 192, kMostReads = 24;

bool reduces(const Expression& expression) {
  return std::any_of(expression.code.begin(), expression.code.end(),
                     [](const Instruction& each) { return each.kind == Kind::reduce; });
}

bool same_layout(const Layout& a, const Layout& b) { return a.offset == b.offset && a.strides == b.strides; }

bool same_memory(const Tensor& a, const Tensor& b) { return a.raw() == b.raw() && a.dtype() == b.dtype(); }

// The axes of a space one by one, while two spaces are brought together.
struct Axis {
  std::int64_t size;
  bool is_reduced;
  int producer = -1, consumer = -1;  // which axis of each it is
};

std::size_t rows_of(const Expression& e) { return e.space.rank() - e.reduced; }
bool is_reduced(const Expression& e, std::size_t axis) { return axis >= rows_of(e); }
std::int64_t size_of_axis(const Expression& e, std::size_t axis) { return e.space.begin()[axis]; }

bool runs_along_all(const Expression& e, const Layout& layout) {
  for (std::size_t a = 0; a < e.space.rank(); ++a) {
    if (size_of_axis(e, a) != 1 && layout.strides[a] == 0) return false;
  }
  return true;
}

// Pairs the axes of both, given where the producer writes a value and how the consumer reads it.
std::optional<std::vector<Axis>> pair_axes(const Expression& p, const Expression& c, const Layout& written,
                                           const Layout& read) {
  if (written.offset != read.offset) return std::nullopt;
  std::vector<int> partner(c.space.rank(), -1);
  std::vector<Axis> axes;
  std::vector<std::size_t> open;  // axes of the producer that the value does not run along: it was reduced over them
  for (std::size_t a = 0; a < p.space.rank(); ++a) {
    if (size_of_axis(p, a) == 1) continue;
    if (written.strides[a] == 0) {
      open.push_back(a);
      continue;
    }
    std::size_t k = 0;
    while (k < c.space.rank() &&
           (partner[k] >= 0 || read.strides[k] != written.strides[a] || size_of_axis(c, k) != size_of_axis(p, a))) {
      ++k;
    }
    if (k == c.space.rank()) return std::nullopt;
    partner[k] = static_cast<int>(a);
  }
  for (std::size_t k = 0; k < c.space.rank(); ++k) {
    if (partner[k] < 0 && read.strides[k] != 0 && size_of_axis(c, k) != 1) return std::nullopt;
  }
  for (const std::size_t a : open) {
    if (!is_reduced(p, a)) return std::nullopt;
    for (std::size_t k = 0; k < c.space.rank(); ++k) {
      const bool fits =
          partner[k] < 0 && size_of_axis(c, k) == size_of_axis(p, a) && (c.reduced == 0 || is_reduced(c, k));
      if (!fits) continue;
      partner[k] = static_cast<int>(a);
      break;
    }
  }
  for (std::size_t k = 0; k < c.space.rank(); ++k) {
    if (size_of_axis(c, k) == 1) continue;
    axes.push_back({size_of_axis(c, k), is_reduced(c, k), partner[k], static_cast<int>(k)});
  }
  for (std::size_t a = 0; a < p.space.rank(); ++a) {
    if (size_of_axis(p, a) == 1 || std::find(partner.begin(), partner.end(), static_cast<int>(a)) != partner.end())
      continue;
    axes.push_back({size_of_axis(p, a), is_reduced(p, a), static_cast<int>(a), -1});
  }
  return axes;
}

// Cuts an axis in two, of which the second has `inner` elements.
void cut(Expression& e, std::size_t axis, std::int64_t inner) {
  std::vector<std::int64_t> sizes(e.space.begin(), e.space.end());
  sizes[axis] /= inner;
  sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(axis) + 1, inner);
  e.reduced += is_reduced(e, axis);
  e.space = Shape(sizes);
  const auto cut = [&](Layout& layout) {
    std::copy_backward(layout.strides.begin() + static_cast<std::ptrdiff_t>(axis), layout.strides.end() - 1,
                       layout.strides.end());
    layout.strides[axis] *= inner;
  };
  for (Access& read : e.reads) cut(read.layout);
  for (Layout& place : e.places) cut(place);
  for (Expression::Write& write : e.writes) cut(write.to.layout);
}

// Where an axis of the one lies along a part of an axis of the other, as of an array that is reshaped in between, cuts
// that in two. Returns whether there is such an axis.
bool cut_alike(Expression& p, const Layout& written, Expression& c, const Layout& read) {
  bool has_cut = false;
  for (std::size_t a = 0; a < p.space.rank(); ++a) {
    for (std::size_t k = 0; k < c.space.rank(); ++k) {
      const std::int64_t of_p = size_of_axis(p, a), of_c = size_of_axis(c, k);
      const std::int64_t large = std::max(of_p, of_c), small = std::min(of_p, of_c);
      if (written.strides[a] != read.strides[k] || written.strides[a] == 0 || small == 1 || large == small ||
          large % small != 0) {
        continue;
      }
      if ((of_p > of_c ? p : c).space.rank() == Shape::kMaxRank) return false;
      of_p > of_c ? cut(p, a, small) : cut(c, k, small);
      has_cut = true;
      a = 0, k = static_cast<std::size_t>(-1);
    }
  }
  return has_cut;
}

// Those of a value that the one writes and the other reads, or else of an array that both read, each element once.
std::optional<std::vector<Axis>> common_axes(const Expression& p, const Expression& c) {
  for (const Expression::Write& write : p.writes) {
    for (const Access& read : c.reads) {
      if (!same_memory(write.to.memory, read.memory)) continue;
      if (auto axes = pair_axes(p, c, write.to.layout, read.layout)) return axes;
    }
  }
  const auto is_of_both = [](const Axis& axis) { return axis.producer >= 0 && axis.consumer >= 0; };
  for (const Access& one : p.reads) {
    for (const Access& other : c.reads) {
      if (!same_memory(one.memory, other.memory)) continue;
      auto axes = pair_axes(p, c, one.layout, other.layout);
      if (axes && std::all_of(axes->begin(), axes->end(), is_of_both) && runs_along_all(p, one.layout)) return axes;
    }
  }
  return std::nullopt;
}

// Decides over which axes the common space is reduced, and puts them last. False if the two do not agree.
bool agree(std::vector<Axis>& axes, const Expression& p, const Expression& c) {
  const bool producer = reduces(p), consumer = reduces(c);
  for (Axis& axis : axes) {
    const bool in_p = axis.producer >= 0 && is_reduced(p, static_cast<std::size_t>(axis.producer));
    const bool in_c = axis.consumer >= 0 && is_reduced(c, static_cast<std::size_t>(axis.consumer));
    if (producer && consumer && in_p != in_c) return false;
    axis.is_reduced = producer ? in_p : in_c;
    // A reduction over more than its own elements, or of rows again and again.
    if (producer && axis.producer < 0) return false;
    if (consumer && axis.consumer < 0) return false;
  }
  std::stable_partition(axes.begin(), axes.end(), [](const Axis& axis) { return !axis.is_reduced; });
  const auto in_order = [&](int Axis::*of) {
    const auto reduced = std::find_if(axes.begin(), axes.end(), [](const Axis& axis) { return axis.is_reduced; });
    return std::is_sorted(reduced, axes.end(), [&](const Axis& a, const Axis& b) { return a.*of < b.*of; });
  };
  // Sums in the order in which each alone would add.
  return (!producer || in_order(&Axis::producer)) && (!consumer || in_order(&Axis::consumer));
}

Layout moved(const Layout& layout, const std::vector<Axis>& axes, int Axis::*of) {
  Layout result{.offset = layout.offset};
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].*of >= 0) result.strides[i] = layout.strides[static_cast<std::size_t>(axes[i].*of)];
  }
  return result;
}

// Appends an expression to the instructions of another of the same space; reads are shared.
class Joined {
 public:
  Joined(const std::vector<Axis>& axes) : axes_(axes) {
    std::vector<std::int64_t> sizes;
    for (const Axis& axis : axes) sizes.push_back(axis.size), result_.reduced += axis.is_reduced;
    result_.space = Shape(sizes);
  }

  // False if a value of the expression would have to be read from memory that was written before in another order.
  bool add(const Expression& expression, int Axis::*of) {
    const std::size_t written = result_.writes.size();
    std::vector<std::uint16_t> numbers;
    for (Instruction instruction : expression.code) {
      if (instruction.kind == Kind::read) {
        const Access& access = expression.reads[instruction.index];
        const Access read{access.memory, moved(access.layout, axes_, of)};
        bool overlaps = false;
        const auto value = written_value(read, written, overlaps);
        if (overlaps) return false;
        numbers.push_back(value ? *value : push_read(read));
        continue;
      }
      if (instruction.kind == Kind::place) {
        result_.places.push_back(moved(expression.places[instruction.index], axes_, of));
        instruction.index = static_cast<std::uint16_t>(result_.places.size() - 1);
      }
      for (std::size_t k = 0; k < operand_count(instruction); ++k) {
        instruction.operands[k] = numbers[instruction.operands[k]];
      }
      numbers.push_back(push(instruction));
    }
    for (const Expression::Write& write : expression.writes) {
      result_.writes.push_back({{write.to.memory, moved(write.to.layout, axes_, of)}, numbers[write.value]});
    }
    return true;
  }

  Expression take() && { return std::move(result_); }

 private:
  std::optional<std::uint16_t> written_value(const Access& read, std::size_t written, bool& overlaps) const {
    for (std::size_t i = 0; i < written; ++i) {
      const Expression::Write& write = result_.writes[i];
      if (same_memory(write.to.memory, read.memory) && same_layout(write.to.layout, read.layout)) return write.value;
      overlaps |= detail::overlap(write.to.memory, read.memory);
    }
    return std::nullopt;
  }

  std::uint16_t push_read(const Access& read) {
    for (std::size_t i = 0; i < result_.code.size(); ++i) {
      if (result_.code[i].kind != Kind::read) continue;
      const Access& other = result_.reads[result_.code[i].index];
      if (same_memory(other.memory, read.memory) && same_layout(other.layout, read.layout)) {
        return static_cast<std::uint16_t>(i);
      }
    }
    result_.reads.push_back(read);
    return push({.kind = Kind::read,
                 .dtype = read.memory.dtype(),
                 .index = static_cast<std::uint16_t>(result_.reads.size() - 1)});
  }

  // Or the number of an instruction that is the same.
  std::uint16_t push(const Instruction& instruction) {
    const auto same = [&](const Instruction& other) {
      return other.kind == instruction.kind && other.dtype == instruction.dtype &&
             other.combiner == instruction.combiner && other.operands == instruction.operands &&
             other.index == instruction.index && other.function == instruction.function &&
             std::bit_cast<std::uint64_t>(other.number) == std::bit_cast<std::uint64_t>(instruction.number) &&
             other.integer == instruction.integer;
    };
    const auto found = std::find_if(result_.code.begin(), result_.code.end(), same);
    if (found == result_.code.end()) {
      result_.code.push_back(instruction);
      return static_cast<std::uint16_t>(result_.code.size() - 1);
    }
    return static_cast<std::uint16_t>(found - result_.code.begin());
  }

  const std::vector<Axis>& axes_;
  Expression result_;
};

// Whether an element is written where another has yet to be read.
bool is_safe(const Expression& expression) {
  const bool in_passes = reduces(expression);
  for (std::size_t i = 0; i < expression.writes.size(); ++i) {
    const Access& write = expression.writes[i].to;
    for (std::size_t k = 0; k < i; ++k) {
      if (detail::overlap(expression.writes[k].to.memory, write.memory)) return false;
    }
    for (const Access& read : expression.reads) {
      if (!detail::overlap(read.memory, write.memory)) continue;
      if (in_passes || !same_memory(read.memory, write.memory) || !same_layout(read.layout, write.layout)) return false;
    }
  }
  return true;
}

std::optional<Fused> joined(const Expression& producer, const Expression& consumer, std::vector<Axis> axes) {
  if (axes.size() > Shape::kMaxRank || !agree(axes, producer, consumer)) return std::nullopt;
  Joined joined(axes);
  if (!joined.add(producer, &Axis::producer) || !joined.add(consumer, &Axis::consumer)) return std::nullopt;
  // A row's value is computed once, whatever else there is along the reduced axes.
  const bool repeats =
      std::any_of(axes.begin(), axes.end(), [](const Axis& axis) { return axis.producer < 0 && !axis.is_reduced; });
  const bool spreads =
      std::any_of(axes.begin(), axes.end(), [](const Axis& axis) { return axis.consumer < 0 && !axis.is_reduced; });
  if (spreads || (repeats && producer.code.size() > kMostRepeated)) return std::nullopt;
  Fused result{std::move(joined).take(), repeats};
  if (!is_safe(result.expression)) return std::nullopt;
  return result;
}

}  // namespace

std::optional<Fused> fuse(const Expression& producer, const Expression& consumer) {
  if (producer.space.count() == 0 || consumer.space.count() == 0 ||
      producer.code.size() + consumer.code.size() > kMostInstructions ||
      producer.reads.size() + consumer.reads.size() > kMostReads) {
    return std::nullopt;
  }
  if (const auto axes = common_axes(producer, consumer)) return joined(producer, consumer, *axes);
  for (std::size_t w = 0; w < producer.writes.size(); ++w) {
    for (std::size_t r = 0; r < consumer.reads.size(); ++r) {
      if (!same_memory(producer.writes[w].to.memory, consumer.reads[r].memory)) continue;
      Expression p = producer, c = consumer;
      if (!cut_alike(p, p.writes[w].to.layout, c, c.reads[r].layout)) continue;
      if (const auto axes = common_axes(p, c)) return joined(p, c, *axes);
    }
  }
  return std::nullopt;
}

Expression without_write(const Expression& expression, const Tensor& memory) {
  Expression result;
  result.space = expression.space;
  result.reduced = expression.reduced;
  std::vector<bool> used(expression.code.size());
  for (const Expression::Write& write : expression.writes) {
    if (!same_memory(write.to.memory, memory)) used[write.value] = true;
  }
  for (std::size_t i = expression.code.size(); i-- > 0;) {
    for (std::size_t k = 0; used[i] && k < operand_count(expression.code[i]); ++k)
      used[expression.code[i].operands[k]] = true;
  }
  std::vector<std::uint16_t> numbers(expression.code.size());
  for (std::size_t i = 0; i < expression.code.size(); ++i) {
    if (!used[i]) continue;
    Instruction instruction = expression.code[i];
    for (std::size_t k = 0; k < operand_count(instruction); ++k)
      instruction.operands[k] = numbers[instruction.operands[k]];
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
    if (!same_memory(write.to.memory, memory)) result.writes.push_back({write.to, numbers[write.value]});
  }
  return result;
}

}  // namespace giro::pointwise
