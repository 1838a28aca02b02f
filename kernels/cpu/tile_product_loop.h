// Without an include guard: tile_product.cpp includes it once for each instruction set (instruction_set_loops.h).

#include "kernels/cpu/vector_loop.h"

constexpr std::int64_t kWidth = 2 * kLanes;
// The rows of `out` held in registers. An x86-64 without AVX2 also has 16 registers, but rounds twice per term.
constexpr int kRows = kVector == 64 ? 8 : 4;

template <class X>
GIRO_INLINE X multiply_add(X a, X b, X c) {
#if defined(__x86_64__)
  if constexpr (sizeof(X) == 64) return _mm512_fmadd_ps(a, b, c);
  if constexpr (sizeof(X) == 32) return _mm256_fmadd_ps(a, b, c);
#endif
  return a * b + c;
}

// kCount rows of one panel. If kIsTransposed, adjacent elements of `left` belong to different rows.
template <int kCount, int kVectors, bool kIsTransposed>
GIRO_TARGET void multiply_rows(const TileProduct& p, float* out, const float* left, const float* right) {
  const std::int64_t row = kIsTransposed ? 1 : p.left_row, term = kIsTransposed ? p.left_term : 1;
  V sums[kCount][kVectors];
#pragma GCC unroll 16
  for (int i = 0; i < kCount; ++i) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) sums[i][v] = p.adds ? load(out + i * p.out_row + v * kLanes) : V{};
  }
  for (std::int64_t k = 0; k < p.terms; ++k, left += term, right += kVectors * kLanes) {
    V factors[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) factors[v] = load(right + v * kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < kCount; ++i) {
      const V each = left[i * row] - V{};
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sums[i][v] = multiply_add(each, factors[v], sums[i][v]);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kCount; ++i) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) store(out + i * p.out_row + v * kLanes, sums[i][v]);
  }
}

// The rows from `i` on, kCount at a time while enough are left, then fewer.
template <int kCount, int kVectors, bool kIsTransposed>
GIRO_TARGET void multiply_panel(const TileProduct& p, std::int64_t i, float* out, const float* right) {
  for (; i + kCount <= p.rows; i += kCount) {
    multiply_rows<kCount, kVectors, kIsTransposed>(p, out + i * p.out_row, p.left + i * p.left_row, right);
  }
  if constexpr (kCount > 1) {
    if (i < p.rows) multiply_panel<kCount / 2, kVectors, kIsTransposed>(p, i, out, right);
  }
}

template <bool kIsTransposed>
GIRO_TARGET void multiply_panels(const TileProduct& p) {
  for (std::int64_t j = 0; j < p.columns; j += kWidth) {
    const float* const right = p.right + j * p.panel_rows;
    if (p.columns - j <= kLanes) {
      multiply_panel<kRows, 1, kIsTransposed>(p, 0, p.out + j, right);
    } else {
      multiply_panel<kRows, 2, kIsTransposed>(p, 0, p.out + j, right);
    }
  }
}

GIRO_TARGET inline void multiply(const TileProduct& p) {
  p.left_term == 1 ? multiply_panels<false>(p) : multiply_panels<true>(p);
}

GIRO_TARGET inline void pack(float* panels, const float* rows, std::int64_t row, std::int64_t count,
                             std::int64_t columns) {
  for (std::int64_t j = 0; j < columns; j += kWidth) {
    const std::int64_t width = columns - j <= kLanes ? kLanes : kWidth, exist = std::min(width, columns - j);
    for (std::int64_t i = 0; i < count; ++i, panels += width) {
      const float* const from = rows + i * row + j;
      if (exist == kWidth) {
        store(panels, load(from));
        store(panels + kLanes, load(from + kLanes));
      } else {
        std::copy_n(from, exist, panels);
        std::fill(panels + exist, panels + width, 0.0f);
      }
    }
  }
}

// The lanes of the lower or higher halves of both, alternating.
template <bool kHigh, std::size_t... I>
GIRO_INLINE V halves(V a, V b, std::index_sequence<I...>) {
  return __builtin_shufflevector(a, b, ((I + (kHigh ? kLanes : 0)) / 2 + I % 2 * kLanes)...);
}

// Transposes a square of kLanes rows, `row` apart, into kLanes rows, `to_row` apart.
GIRO_TARGET inline void transpose(float* to, std::int64_t to_row, const float* rows, std::int64_t row) {
  constexpr auto kLane = std::make_index_sequence<kLanes>();
  V x[kLanes], y[kLanes];
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) x[i] = load(rows + i * row);
#pragma GCC unroll 4
  for (int step = 1; step < kLanes; step *= 2) {
#pragma GCC unroll 8
    for (int i = 0; i < kLanes / 2; ++i) {
      y[2 * i] = halves<false>(x[i], x[i + kLanes / 2], kLane);
      y[2 * i + 1] = halves<true>(x[i], x[i + kLanes / 2], kLane);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) x[i] = y[i];
  }
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) store(to + i * to_row, x[i]);
}

GIRO_TARGET inline void pack_transposed(float* panels, const float* rows, std::int64_t row, std::int64_t count,
                                        std::int64_t columns) {
  for (std::int64_t j = 0; j < count; j += kWidth) {
    const std::int64_t width = count - j <= kLanes ? kLanes : kWidth;
    for (std::int64_t first = j; first < j + width; first += kLanes, panels += kLanes) {
      const std::int64_t exist = std::min(kLanes, count - first);
      std::int64_t i = 0;
      for (; exist == kLanes && i + kLanes <= columns; i += kLanes) {
        transpose(panels + i * width, width, rows + first * row + i, row);
      }
      for (; i < columns; ++i) {
        for (std::int64_t lane = 0; lane < kLanes; ++lane) {
          panels[i * width + lane] = lane < exist ? rows[(first + lane) * row + i] : 0.0f;
        }
      }
    }
    panels += (columns - 1) * width;
  }
}

constexpr TileProducts kProducts{kWidth, &multiply, &pack, &pack_transposed};
#undef GIRO_INLINE
