#pragma once

#include <cstddef>
#include <cstdint>

#include <giro/runtime/dtype.h>

#include "kernels/expr/expression.h"

namespace giro::cpu {

constexpr std::int64_t kPiece = 1024;  // elements that are combined in lanes
constexpr std::int64_t kLanes = 32;

// The state of a row's reduction after some pieces of the row.
struct Total {
  double number = 0;
  std::int64_t integer = 0;  // or a key: see fold.cpp
  std::int64_t place = 0;
};

// How a reduction runs. In a piece of kPiece elements, element e goes to lane e % kLanes. The lanes are combined in
// pairs, then the pieces' results in order. Sums of f32 are f32 within a piece and double across pieces. The bits are
// the same whether rows or columns are contiguous in memory.
struct Fold {
  DType takes;  // f32, f64 or i64
  DType gives;
  Total identity;
  std::size_t lane_bytes;  // per lane of a column
  std::int64_t lanes;      // per column

  // Adds a piece of each of several rows. The piece starts at element `first` of each row.
  void (*rows)(const void* tile, std::int64_t rows, std::int64_t length, std::int64_t first, Total* totals);
  // For n columns: starts a piece, adds element e to it, ends it.
  void (*open)(void* lanes, std::int64_t n, std::int64_t used);
  void (*add)(const void* tile, void* lanes, std::int64_t n, std::int64_t e);
  void (*close)(void* lanes, std::int64_t n, std::int64_t used, Total* totals);

  void (*merge)(const Total* from, Total* into, std::int64_t n);
  void (*finish)(const Total* totals, void* out, std::int64_t n);
};

Fold fold_of(expr::Combiner combiner, DType computed);
// The f64 sum of the squares of f32 values, with the bits that converting, squaring and adding them one by one has.
Fold fold_of_squares();

}  // namespace giro::cpu
