#include "kernels/cuda/expression_plan.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <numeric>

namespace giro::cuda {

using expr::Expression;

bool ExpressionPlan::is_cut_between_packs_of(int count, const Array& array, std::size_t axis) {
  if (axis >= kMaxAxes) return true;
  const auto [begin, end] = array.bounds[axis];
  return begin % count == 0 && (end == Bounds().end || end % count == 0);
}

bool ExpressionPlan::takes_packs_of(int count, const Array& array, std::size_t axis) {
  if (axis >= kMaxAxes || array.strides[axis] != 1) return false;
  const auto bytes = static_cast<std::int64_t>(array.size);
  const std::int64_t alignment = std::min<std::int64_t>(16, count * bytes);
  for (std::size_t other = 0; other < kMaxAxes; ++other) {
    if (other != axis && array.strides[other] * bytes % alignment != 0) return false;
  }
  return array.misaligned_by % alignment == 0;
}

bool ExpressionPlan::counts_packs_of(int count, const Array& place) const {
  return stride_of(place) == 1 && place.offset % count == 0 &&
         std::all_of(place.strides.begin(), place.strides.begin() + static_cast<std::ptrdiff_t>(sizes.size()) - 1,
                     [&](std::int64_t s) { return s % count == 0; });
}

ExpressionPlan::ExpressionPlan(const Expression& expression) : Analysis(expression) {
  const std::size_t rank = sizes.size();
  is_pointwise = levels == 0;
  for (const Array& write : writes) {
    if (write.is_same_along(0, rank)) continue;
    for (std::size_t axis = row_axes; axis < rank; ++axis) {
      if (sizes[axis] != 1 && write.strides[axis] == 0) is_pointwise = false;
    }
  }
  if (is_pointwise) row_axes = rank;
  for (std::size_t axis = 0; axis < rank; ++axis) (axis < row_axes ? rows : length) *= sizes[axis];

  join_axes();
  order_rows();
  join_axes();

  // Leaves room to count one pack or block beyond the end.
  constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max() - (1 << 16);
  has_wide_index = rows * (is_pointwise ? 1 : 0) > kMax || length > kMax;
  for_each_array([&](const Array& array) {
    std::int64_t reach = 0;
    for (std::size_t axis = element_axis(); axis < sizes.size(); ++axis) {
      reach += std::abs(array.strides[axis]) * sizes[axis];
    }
    if (reach > kMax) has_wide_index = true;
  });
  is_of_element = values_that_vary_from(element_axis());
}

// Sorts the row axes by the strides of one array: the first output if nothing is reduced, else the largest input.
void ExpressionPlan::order_rows() {
  const Array* guide = is_pointwise && !writes.empty() ? &writes[0] : nullptr;
  std::int64_t most = 0;
  if (guide == nullptr) {
    for (const Array& read : reads) {
      std::int64_t bytes = static_cast<std::int64_t>(read.size);
      for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
        if (read.strides[axis] != 0) bytes *= sizes[axis];
      }
      if (bytes > most) most = bytes, guide = &read;
    }
  }
  if (guide == nullptr) return;
  std::vector<std::size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto strides = guide->strides;
  std::stable_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(row_axes),
                   [&](std::size_t a, std::size_t b) { return std::abs(strides[a]) > std::abs(strides[b]); });
  if (!is_pointwise && row_axes > 0 && sizes.size() > row_axes) {
    const std::int64_t along_rows = std::abs(strides[order[row_axes - 1]]), along_row = std::abs(stride_of(*guide));
    is_by_columns = along_rows != 0 && along_row > along_rows;
  }
  const auto in_order = [&](auto& values) {
    const auto before = values;
    for (std::size_t axis = 0; axis < order.size(); ++axis) values[axis] = before[order[axis]];
  };
  in_order(sizes);
  for_each_array([&](Array& array) { in_order(array.strides), in_order(array.bounds); });
}

}  // namespace giro::cuda
