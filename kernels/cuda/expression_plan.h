#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/expr/expression.h"

namespace giro::cuda {

// Consecutive elements of a row that a thread takes at a time: the leaves of a reduction's tree.
inline constexpr int kUnit = 8;

// What an expression's kernels depend on: as few axes as possible, and when each instruction can be computed.
struct ExpressionPlan {
  explicit ExpressionPlan(const expr::Expression& expression);

  // An array's layout in memory, along the axes of `sizes`.
  using Bounds = expr::Layout::Bounds;
  struct Array {
    DType dtype = DType::f32;
    const char* data = nullptr;         // address of element 0
    std::vector<std::int64_t> strides;  // in elements
    std::vector<Bounds> bounds;         // Bounds() if no element is missing along the axis
    bool is_whole_along(std::size_t axis) const { return bounds[axis] == Bounds(); }
    // Whether each pack of `count` elements along the axis exists either whole or not at all.
    bool is_cut_between_packs_of(int count, std::size_t axis) const;
    // Whether each pack of `count` elements along the axis is contiguous and aligned for one access.
    bool takes_packs_of(int count, std::size_t axis) const;
    // For a place with value `first` at the origin: whether it is a multiple of `count` at the start of each pack and
    // grows by 1 within it.
    bool counts_packs_of(int count, std::int64_t first) const;
  };

  // Axes of one element are dropped, and axes that are contiguous in every array are joined. The row axes come first,
  // the one with the smallest stride last among them. The reduced axes keep their order.
  std::vector<std::int64_t> sizes;
  std::size_t row_axes = 0;
  std::vector<Array> reads, writes, places;

  // No instruction reduces, and each output has one value per element or one in all. All axes are then row axes.
  bool is_pointwise = false;
  std::int64_t rows = 1, length = 1;  // elements of the axes before row_axes, and from it on
  // Whether neighbouring rows are closer in memory than neighbouring elements of a row.
  bool is_by_columns = false;
  bool has_wide_index = false;  // some offset in memory or index in the space exceeds 32 bits

  // Per instruction: whether it has a value per element (otherwise per row), and how many reductions in sequence its
  // value depends on.
  std::vector<bool> is_of_element;
  std::vector<int> level;
  int levels = 0;  // the most reductions in sequence

 private:
  void join_axes(std::size_t begin, std::size_t end);
  void order_rows();
  void classify(const expr::Expression& expression);
};

}  // namespace giro::cuda
