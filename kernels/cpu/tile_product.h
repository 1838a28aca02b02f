#pragma once

#include <cstdint>

#include "kernels/pointwise/instruction_sets.h"

namespace giro::cpu {

// Products of f32 matrices that fit into a core's caches. The order of each sum depends on the instruction set and on
// the number of its terms alone, except that those with an fma instruction round once per term.
//
// The right operand is packed in panels, one after the other: of `width` columns each, and in a panel row after row.
// The last panel has width / 2 columns if no more are needed. Columns that do not exist are 0.
struct TileProduct {
  float* out;  // out[i * out_row + j], with the columns of whole panels
  std::int64_t out_row;
  const float* left;  // left[i * left_row + k * left_term]; one of the two is 1
  std::int64_t left_row, left_term;
  const float* right;
  std::int64_t panel_rows;  // of the right operand's panels, at least `terms`
  std::int64_t rows, columns, terms;
  bool adds;  // to `out`
};

struct TileProducts {
  std::int64_t width;
  void (*multiply)(const TileProduct& product);
  // Packs rows (rows, columns) as they are.
  void (*pack)(float* panels, const float* rows, std::int64_t row, std::int64_t count, std::int64_t columns);
  // Packs their transpose.
  void (*pack_transposed)(float* panels, const float* rows, std::int64_t row, std::int64_t count, std::int64_t columns);

  // The columns of whole panels.
  std::int64_t padded(std::int64_t columns) const { return (columns + width / 2 - 1) / (width / 2) * (width / 2); }
};

// Those of pointwise::instruction_set().
const TileProducts& tile_products();

}  // namespace giro::cpu
