#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/expr/analysis.h"

namespace giro::cuda {

// Consecutive elements of a row that a thread takes at a time: the leaves of a reduction's tree.
inline constexpr int kUnit = 8;

// What an expression's kernels depend on. The row axis with the smallest stride comes last among them; the reduced axes
// keep their order.
struct ExpressionPlan : expr::Analysis {
  explicit ExpressionPlan(const expr::Expression& expression);

  // Whether each pack of `count` elements along the axis exists either whole or not at all.
  static bool is_cut_between_packs_of(int count, const Array& array, std::size_t axis);
  // Whether each pack of `count` elements along the axis is contiguous and aligned for one access.
  static bool takes_packs_of(int count, const Array& array, std::size_t axis);
  // Whether a place is a multiple of `count` at the start of each pack along the last axis and grows by 1 within it.
  bool counts_packs_of(int count, const Array& place) const;
  // The first axis that numbers a row's elements or, if pointwise, all elements.
  std::size_t element_axis() const { return is_pointwise ? 0 : row_axes; }
  // Along the last axis.
  std::int64_t stride_of(const Array& array) const { return sizes.empty() ? 0 : array.strides[sizes.size() - 1]; }

  // No instruction reduces, and each output has one value per element or one in all. All axes are then row axes.
  bool is_pointwise = false;
  std::int64_t rows = 1, length = 1;  // elements of the axes before row_axes, and from it on
  // Whether neighbouring rows are closer in memory than neighbouring elements of a row.
  bool is_by_columns = false;
  bool has_wide_index = false;  // some offset in memory or index in the space exceeds 32 bits

  std::vector<bool> is_of_element;  // per instruction: whether it has a value per element (otherwise per row)

 private:
  void order_rows();
};

}  // namespace giro::cuda
