#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/pointwise/expression.h"

namespace giro::cuda {

// Elements that a thread takes at a time along a row, one after the other: the leaves of a reduction's tree.
inline constexpr int kUnit = 8;

// What a kernel of an expression needs to know of it: few axes, and when each instruction can be computed.
struct ExpressionPlan {
  explicit ExpressionPlan(const pointwise::Expression& expression);

  // How an array lies in memory along `sizes`.
  using Bounds = pointwise::Layout::Bounds;
  struct Array {
    DType dtype = DType::f32;
    const char* data = nullptr;         // where element 0 is
    std::vector<std::int64_t> strides;  // of elements
    std::vector<Bounds> bounds;         // Bounds() where all are there
    bool is_whole_along(std::size_t axis) const { return bounds[axis] == Bounds(); }
    // Whether of `count` elements from any multiple of that along the last axis either all are there or none.
    bool is_cut_between_packs_of(int count) const;
    // Whether `count` elements from any multiple of that along the last axis lie in a row, aligned for one access.
    bool takes_packs_of(int count) const;
    // Of a place that is `first` where all axes begin: whether it is a multiple of `count` there, and then goes up
    // by 1.
    bool counts_packs_of(int count, std::int64_t first) const;
  };

  // Without axes of one element, and with those joined that lie alike in every array. The axes of the rows come first,
  // those that lie closest in memory last; the reduced ones keep their order.
  std::vector<std::int64_t> sizes;
  std::size_t row_axes = 0;
  std::vector<Array> reads, writes, places;

  // No instruction reduces, and what is written has a value for each element, or one for all: all axes are the rows'.
  bool is_pointwise = false;
  std::int64_t rows = 1, length = 1;  // how many elements the axes before and from row_axes on have
  // Whether neighbours along the rows are closer in memory than along the reduced axes.
  bool is_by_columns = false;
  bool has_wide_index = false;  // some place in memory or in the space is beyond 32 bits

  // Of each instruction: whether it has a value for each element rather than for each row, and how many reductions
  // come one after the other before it is known.
  std::vector<bool> is_of_element;
  std::vector<int> level;
  int levels = 0;  // of reductions

 private:
  void join_axes(std::size_t begin, std::size_t end);
  void order_rows();
  void classify(const pointwise::Expression& expression);
};

}  // namespace giro::cuda
