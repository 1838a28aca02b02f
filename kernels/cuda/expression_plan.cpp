#include "kernels/cuda/expression_plan.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <numeric>

namespace giro::cuda {

using expr::Access;
using expr::Expression;
using expr::Instruction;
using expr::Layout;

namespace {

ExpressionPlan::Array array_of(const Layout& layout, const std::vector<std::int64_t>& sizes) {
  ExpressionPlan::Array array;
  array.strides.assign(layout.strides.begin(), layout.strides.begin() + static_cast<std::ptrdiff_t>(sizes.size()));
  for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
    Layout::Bounds bounds = layout.bounds[axis];
    if (bounds.end >= sizes[axis]) bounds.end = Layout::Bounds().end;
    array.bounds.push_back(bounds);
  }
  return array;
}

ExpressionPlan::Array array_of(const Access& access, const std::vector<std::int64_t>& sizes) {
  ExpressionPlan::Array array = array_of(access.layout, sizes);
  array.dtype = access.memory.dtype();
  array.data = static_cast<const char*>(access.memory.raw()) +
               access.layout.offset * static_cast<std::int64_t>(size_of(array.dtype));
  return array;
}

template <class F>
void for_each_array(ExpressionPlan& plan, F&& f) {
  for (auto* arrays : {&plan.reads, &plan.writes, &plan.places}) {
    for (ExpressionPlan::Array& array : *arrays) f(array);
  }
}

// Whether the array has the same element along all axes from `begin` on.
bool is_constant_from(std::size_t begin, const ExpressionPlan::Array& array) {
  for (std::size_t axis = begin; axis < array.strides.size(); ++axis) {
    if (array.strides[axis] != 0 || !array.is_whole_along(axis)) return false;
  }
  return true;
}

}  // namespace

bool ExpressionPlan::Array::takes_packs_of(int count, std::size_t axis) const {
  if (axis >= strides.size() || strides[axis] != 1) return false;
  const auto bytes = static_cast<std::int64_t>(size_of(dtype));
  const std::int64_t alignment = std::min<std::int64_t>(16, count * bytes);
  for (std::size_t other = 0; other < strides.size(); ++other) {
    if (other != axis && strides[other] * bytes % alignment != 0) return false;
  }
  return reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(alignment) == 0;
}

bool ExpressionPlan::Array::counts_packs_of(int count, std::int64_t first) const {
  return !strides.empty() && strides.back() == 1 && first % count == 0 &&
         std::all_of(strides.begin(), strides.end() - 1, [&](std::int64_t s) { return s % count == 0; });
}

bool ExpressionPlan::Array::is_cut_between_packs_of(int count, std::size_t axis) const {
  if (axis >= bounds.size()) return true;
  const auto [begin, end] = bounds[axis];
  return begin % count == 0 && (end == Bounds().end || end % count == 0);
}

ExpressionPlan::ExpressionPlan(const Expression& expression) {
  const std::size_t rank = expression.space.rank();
  sizes.assign(expression.space.begin(), expression.space.end());
  for (const Access& read : expression.reads) reads.push_back(array_of(read, sizes));
  for (const Expression::Write& write : expression.writes) writes.push_back(array_of(write.to, sizes));
  for (const Layout& place : expression.places) places.push_back(array_of(place, sizes));
  row_axes = rank - expression.reduced;

  const auto product = [&](std::size_t begin, std::size_t end) {
    return std::accumulate(sizes.begin() + static_cast<std::ptrdiff_t>(begin),
                           sizes.begin() + static_cast<std::ptrdiff_t>(end), std::int64_t{1}, std::multiplies<>());
  };
  is_pointwise = !expr::reduces(expression);
  for (const Array& write : writes) {
    if (is_constant_from(0, write)) continue;
    for (std::size_t axis = row_axes; axis < rank; ++axis) {
      if (sizes[axis] != 1 && write.strides[axis] == 0) is_pointwise = false;
    }
  }
  if (is_pointwise) row_axes = rank;
  rows = product(0, row_axes);
  length = product(row_axes, rank);

  join_axes(row_axes, rank);
  join_axes(0, row_axes);
  order_rows();
  join_axes(0, row_axes);

  // Leaves room to count one pack or block beyond the end.
  constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max() - (1 << 16);
  has_wide_index = rows * (is_pointwise ? 1 : 0) > kMax || length > kMax;
  for_each_array(*this, [&](const Array& array) {
    std::int64_t reach = 0;
    for (std::size_t axis = is_pointwise ? 0 : row_axes; axis < sizes.size(); ++axis) {
      reach += std::abs(array.strides[axis]) * sizes[axis];
    }
    if (reach > kMax) has_wide_index = true;
  });
  classify(expression);
}

// Drops axes of one element, and joins axes that are contiguous in every array, within [begin, end).
void ExpressionPlan::join_axes(std::size_t begin, std::size_t end) {
  const auto remove = [&](std::size_t axis) {
    sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(axis));
    for_each_array(*this, [&](Array& a) {
      a.strides.erase(a.strides.begin() + static_cast<std::ptrdiff_t>(axis));
      a.bounds.erase(a.bounds.begin() + static_cast<std::ptrdiff_t>(axis));
    });
    if (axis < row_axes) --row_axes;
    --end;
  };
  for (std::size_t axis = begin; axis < end;) {
    bool is_whole = true;
    for_each_array(*this, [&](const Array& a) { is_whole = is_whole && a.is_whole_along(axis); });
    if (sizes[axis] == 1 && is_whole) {
      remove(axis);
      continue;
    }
    bool joins = axis > begin && is_whole;
    if (joins) {
      for_each_array(*this,
                     [&](const Array& a) { joins = joins && a.strides[axis - 1] == a.strides[axis] * sizes[axis]; });
    }
    if (joins) {
      for_each_array(*this, [&](Array& a) {
        Bounds& bounds = a.bounds[axis];
        bounds.begin = a.bounds[axis - 1].begin * sizes[axis];
        if (a.bounds[axis - 1].end != Bounds().end) bounds.end = a.bounds[axis - 1].end * sizes[axis];
      });
      sizes[axis] *= sizes[axis - 1];
      remove(axis - 1);
    } else {
      ++axis;
    }
  }
}

// Sorts the row axes by the strides of one array: the first output if nothing is reduced, else the largest input.
void ExpressionPlan::order_rows() {
  const Array* guide = is_pointwise && !writes.empty() ? &writes[0] : nullptr;
  std::int64_t most = 0;
  if (guide == nullptr) {
    for (const Array& read : reads) {
      std::int64_t bytes = static_cast<std::int64_t>(size_of(read.dtype));
      for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
        if (read.strides[axis] != 0) bytes *= sizes[axis];
      }
      if (bytes > most) most = bytes, guide = &read;
    }
  }
  if (guide == nullptr) return;
  std::vector<std::size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const std::vector<std::int64_t> strides = guide->strides;
  std::stable_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(row_axes),
                   [&](std::size_t a, std::size_t b) { return std::abs(strides[a]) > std::abs(strides[b]); });
  if (!is_pointwise && row_axes > 0 && sizes.size() > row_axes) {
    const std::int64_t along_rows = std::abs(strides[order[row_axes - 1]]), along_row = std::abs(strides.back());
    is_by_columns = along_rows != 0 && along_row > along_rows;
  }
  const auto in_order = [&](auto& values) {
    const auto before = values;
    for (std::size_t axis = 0; axis < order.size(); ++axis) values[axis] = before[order[axis]];
  };
  in_order(sizes);
  for_each_array(*this, [&](Array& array) { in_order(array.strides), in_order(array.bounds); });
}

void ExpressionPlan::classify(const Expression& expression) {
  const std::size_t varies_from = is_pointwise ? 0 : row_axes;
  const auto varies = [&](const Array& array) { return !is_constant_from(varies_from, array); };
  for (const Instruction& i : expression.code) {
    bool element = (i.kind == Instruction::Kind::read && varies(reads[i.index])) ||
                   (i.kind == Instruction::Kind::place && varies(places[i.index]));
    int known = 0;
    for (std::size_t k = 0; k < expr::operand_count(i); ++k) {
      element = element || is_of_element[i.operands[k]];
      known = std::max(known, level[i.operands[k]]);
    }
    if (i.kind == Instruction::Kind::reduce) {
      element = false;
      levels = std::max(levels, ++known);
    }
    is_of_element.push_back(element);
    level.push_back(known);
  }
}

}  // namespace giro::cuda
