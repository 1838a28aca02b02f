#pragma once

#include <cstdint>

#include "kernels/expr/instruction_sets.h"

namespace giro::cpu {

// Products of f32 matrices that fit into a core's caches. Each sum adds its terms in order, so its bits depend only on
// them and on the instruction set: those with fma round once per term.
//
// The right operand is packed in consecutive panels of `width` columns, each in row-major order. The last panel has
// width / 2 columns if no more are needed. Missing columns are 0.
struct TileProduct {
  float* out;  // out[i * out_row + j], with columns rounded up to whole panels
  std::int64_t out_row;
  const float* left;  // left[i * left_row + k * left_term]; one of the two is 1
  std::int64_t left_row, left_term;
  const float* right;
  std::int64_t panel_rows;  // rows in each of the right operand's panels, at least `terms`
  std::int64_t rows, columns, terms;
  bool adds;  // to `out`
};

struct TileProducts {
  std::int64_t width;
  void (*multiply)(const TileProduct& product);
  // Packs a matrix (count, columns) whose rows are `row` apart.
  void (*pack)(float* panels, const float* rows, std::int64_t row, std::int64_t count, std::int64_t columns);
  // Packs its transpose.
  void (*pack_transposed)(float* panels, const float* rows, std::int64_t row, std::int64_t count, std::int64_t columns);

  // `columns` rounded up to whole panels.
  std::int64_t padded(std::int64_t columns) const { return (columns + width / 2 - 1) / (width / 2) * (width / 2); }
};

// For expr::instruction_set().
const TileProducts& tile_products();

}  // namespace giro::cpu
