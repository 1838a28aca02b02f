#pragma once

// Shared by the forward and backward passes of attention on a GPU.
//
// They work in tiles of 64 queries and 64 keys, in true f32. Each thread computes 4 rows and 4 or 8 columns of a tile,
// in quads of neighbours. Both operands of a product are in shared memory, indexed by term first.

#include <cstdint>

#include "kernels/cuda/graph_plan.h"
#include "kernels/cuda/kernel_launch.cuh"
#include "kernels/cuda/tiled_product.cuh"
#include "kernels/host_device/attention_pattern.h"
#include "kernels/host_device/storage.h"
#include "kernels/ops.h"

namespace giro::cuda::attention {

inline constexpr int kTile = 64, kQuadsOfTile = kTile / 4;
inline constexpr int kDepth = 32;  // terms of scores in shared memory at a time
// Keeps quads aligned, and puts the two quads of 16 rows that a warp stores into different banks.
inline constexpr int kStride = kTile + 4;

// How a block's threads share a tile, for heads up to kWidth wide.
template <int kWidth>
struct Layout {
  static constexpr int kAcross = kWidth <= 64 ? 8 : 16;  // threads that share 4 rows: neighbours in a warp
  static constexpr int kThreads = kTile / 4 * kAcross;
  static constexpr int kColumns = kTile / kAcross;
  static constexpr int kParts = kWidth / kTile;  // tiles across a head's width

  using Sums = float[4][kColumns];

  __device__ static int row() { return static_cast<int>(threadIdx.x) / kAcross * 4; }
  __device__ static int column(int j) {
    return static_cast<int>(threadIdx.x) % kAcross * 4 + j / 4 * kAcross * 4 + j % 4;
  }
};

union alignas(16) Operands {
  struct {
    float left[kDepth][kStride], right[kDepth][kStride];
  } scores;
  float rows[kTile][kStride];
};
struct Shared {
  Operands operands;
  float weights[kTile][kStride];  // of a tile: [column][row]
};

// Rows of one head.
struct Rows {
  const void* data;
  DType dtype;
  bool in_quads;
  int count, stride, width;
};

// Heads of one of the op's arrays, (B, rows, heads, width).
struct Array : host_device::Output {
  bool in_quads;
  int rows, heads, width, stride;  // stride: from one row to the next, in elements

  explicit Array(const ops::Heads& of)
      : Output(of.data(), of.array.dtype()),
        in_quads(of && cuda::in_quads(of.array, of.array.shape()[3])),
        rows(of ? static_cast<int>(of.array.shape()[1]) : 0),
        heads(static_cast<int>(of.count)),
        width(of ? static_cast<int>(of.array.shape()[3]) : 0),
        stride(of ? static_cast<int>(of.array.shape()[2]) * width : 0) {}

  __device__ std::int64_t at(int b, int row, int head) const {
    return (std::int64_t{b} * rows + row) * stride + std::int64_t{head} * width;
  }
  // Rows [first, end).
  __device__ Rows tile(int b, int first, int end, int head) const {
    const std::int64_t offset = at(b, first, head) * (dtype == DType::f32 ? 4 : 2);
    return {static_cast<const char*>(data) + offset, dtype, in_quads, end - first, stride, width};
  }
};

__device__ inline float as_float(float x, DType) { return x; }
__device__ inline float as_float(std::uint16_t bits, DType dtype) {
  if (dtype == DType::bf16) return __uint_as_float(static_cast<std::uint32_t>(bits) << 16);
  Float16 x;
  x.bits = bits;
  return x;
}

// Calls store(number, quad) for kLoads quads of elements, at the row and column that position(number) returns. Elements
// that do not exist are 0.
template <int kLoads, class T, class Position, class Store>
__device__ void load_as(const Rows& rows, const Position& position, const Store& store) {
  Quad<T> loaded[kLoads];
#pragma unroll
  for (int load = 0; load < kLoads; ++load) {
    const auto [row, column] = position(load);
    const T* const from = static_cast<const T*>(rows.data) + row * rows.stride + column;
    loaded[load] = {};
    if (rows.in_quads) {
      if (row < rows.count && column < rows.width) loaded[load] = *reinterpret_cast<const Quad<T>*>(from);
    } else {
      for (int i = 0; i < 4; ++i) {
        if (row < rows.count && column + i < rows.width) loaded[load].element[i] = from[i];
      }
    }
  }
#pragma unroll
  for (int load = 0; load < kLoads; ++load) {
    Quad<float> quad;
#pragma unroll
    for (int i = 0; i < 4; ++i) quad.element[i] = as_float(loaded[load].element[i], rows.dtype);
    store(load, quad);
  }
}
template <int kLoads, class Position, class Store>
__device__ void load(const Rows& rows, const Position& position, const Store& store) {
  if (rows.dtype == DType::f32) {
    load_as<kLoads, float>(rows, position, store);
  } else {
    load_as<kLoads, std::uint16_t>(rows, position, store);
  }
}

struct Position {
  int row, column;
};

__device__ inline Quad<float>& quad_at(float& element) { return reinterpret_cast<Quad<float>&>(element); }

// sums += left * right over kTerms terms.
template <int kTerms, int kColumns>
__device__ void multiply(float (&sums)[4][kColumns], float (*left)[kStride], float (*right)[kStride], int row,
                         const int (&columns)[kColumns / 4]) {
#pragma unroll 8
  for (int term = 0; term < kTerms; ++term) {
    const Quad<float> down = quad_at(left[term][row]);
#pragma unroll
    for (int quad = 0; quad < kColumns / 4; ++quad) {
      const Quad<float> across = quad_at(right[term][columns[quad]]);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) sums[i][quad * 4 + j] += down.element[i] * across.element[j];
      }
    }
  }
}

template <int kWidth>
class Block : public Layout<kWidth> {
 public:
  using L = Layout<kWidth>;
  using typename L::Sums;

  __device__ explicit Block(Shared& shared) : shared_(shared) {
#pragma unroll
    for (int quad = 0; quad < L::kColumns / 4; ++quad) columns_[quad] = L::column(4 * quad);
  }

  // sums[i][j] = the dot product of row i of `left` and row j of `right`.
  __device__ void scores(Sums& sums, const Rows& left, const Rows& right) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < L::kColumns; ++j) sums[i][j] = 0;
    }
#pragma unroll 1
    for (int from = 0; from < left.width; from += kDepth) {
      __syncthreads();  // all threads have read the previous operands
      load_terms(shared_.operands.scores.left, left, from);
      load_terms(shared_.operands.scores.right, right, from);
      __syncthreads();
      multiply<kDepth>(sums, shared_.operands.scores.left, shared_.operands.scores.right, L::row(), columns_);
    }
  }

  // Stores a tile in shared memory, for add_products.
  __device__ void set_weights(const Sums& tile) {
#pragma unroll
    for (int j = 0; j < L::kColumns; ++j) {
      quad_at(shared_.weights[L::column(j)][L::row()]) = {tile[0][j], tile[1][j], tile[2][j], tile[3][j]};
    }
  }

  // sums += the stored tile times `rows`, not transposed.
  __device__ void add_products(Sums (&sums)[L::kParts], const Rows& rows) {
#pragma unroll
    for (int part = 0; part < L::kParts; ++part) {
      if (part * kTile >= rows.width) break;
      __syncthreads();  // all threads have read the previous operands
      constexpr int kLoads = 4;
#pragma unroll 1
      for (int first = 0; first < kTile * kQuadsOfTile; first += kLoads * L::kThreads) {
        const auto position = [&](int load) {
          const int i = first + static_cast<int>(threadIdx.x) + load * L::kThreads;
          return Position{i / kQuadsOfTile, part * kTile + i % kQuadsOfTile * 4};
        };
        load<kLoads>(rows, position, [&](int load, const Quad<float>& quad) {
          const Position to = position(load);
          quad_at(shared_.operands.rows[to.row][to.column - part * kTile]) = quad;
        });
      }
      __syncthreads();
      multiply<kTile>(sums[part], shared_.weights, shared_.operands.rows, L::row(), columns_);
    }
  }

  // Stores factor(i, sum) for each sum of row i, in a head's rows from `first` on.
  template <class Factor>
  __device__ void store(const Array& to, const Sums (&sums)[L::kParts], int b, int first, int head,
                        const Factor& factor) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = first + L::row() + i;
      if (row >= to.rows) break;
      const std::int64_t at = to.at(b, row, head);
#pragma unroll
      for (int part = 0; part < L::kParts; ++part) {
#pragma unroll
        for (int j = 0; j < L::kColumns; ++j) {
          const int column = part * kTile + L::column(j);
          if (column < to.width) to.store(at + column, factor(i, sums[part][i][j]));
        }
      }
    }
  }

 private:
  __device__ void load_terms(float (&terms)[kDepth][kStride], const Rows& rows, int from) {
    const auto position = [&](int load) {
      const int i = static_cast<int>(threadIdx.x) + load * L::kThreads;
      return Position{i / 2 % kTile, from + (i / (2 * kTile) * 2 + i % 2) * 4};
    };
    load<kTile * kDepth / 4 / L::kThreads>(rows, position, [&](int load, const Quad<float>& quad) {
      const Position to = position(load);
#pragma unroll
      for (int i = 0; i < 4; ++i) terms[to.column - from + i][to.row] = quad.element[i];
    });
  }

  Shared& shared_;
  int columns_[L::kColumns / 4];
};

struct Common : host_device::AttentionInputs<Array> {
  using AttentionInputs::AttentionInputs;

  // Whether all queries [t, t + kTile) attend to all keys [s, s + kTile).
  __device__ bool attends_to_all(int t, int s, int length) const {
    return pattern.mask == nullptr && s + kTile <= length && s + kTile <= pattern.end(t, length);
  }
  __device__ bool attends(int b, int h, int t, int s, int length) const {
    return t < query.rows && s < length && s < pattern.end(t, length) &&
           (pattern.mask == nullptr || pattern.mask_row(b, h, t)[s * pattern.mask_stride_s]);
  }
  // One past the last key of queries [t, t + kTile).
  __device__ int last_end(int t, int length) const {
    return static_cast<int>(min(std::int64_t{length}, pattern.end(min(t + kTile, query.rows) - 1, length)));
  }
  // Whether dropout keeps a weight.
  __device__ bool keeps(int b, int h, int t, int s) const {
    const auto place = static_cast<std::uint64_t>(pattern.dropout_index(b, h, t) + s);
    const Rng rng{static_cast<std::uint64_t>(pattern.key_of_dropout()), RngPurpose::draw};
    const PhiloxBlock block = rng.block(place / 4);
    const std::uint32_t low = place % 2 == 0 ? block.word[0] : block.word[1];
    const std::uint32_t high = place % 2 == 0 ? block.word[2] : block.word[3];
    const float uniform = static_cast<float>((place % 4 < 2 ? low : high) >> 8) * 0x1p-24f;
    return uniform < pattern.keep_threshold;
  }
};

// One bit for each element of a thread's tile: is(row, column). The loop is not unrolled, to use few registers.
template <int kWidth>
class Bits {
 public:
  __device__ Bits() : bits_(0xffffffffu) {}
  template <class Is>
  __device__ explicit Bits(const Is& is) : bits_(0) {
#pragma unroll 1
    for (int n = 0; n < 4 * kColumns; ++n) {
      if (is(Layout<kWidth>::row() + n / kColumns, Layout<kWidth>::column(n % kColumns))) bits_ |= 1u << n;
    }
  }
  __device__ bool at(int i, int j) const { return (bits_ >> (i * kColumns + j) & 1u) != 0; }

 private:
  static constexpr int kColumns = Layout<kWidth>::kColumns;
  unsigned int bits_;
};

// The tile, head and batch index of a block, with `tiles` tiles per head. The last queries come first: they have the
// most keys if causal.
struct Site {
  int tile, head, b;
  __device__ Site(int tiles, int heads)
      : tile(tiles - 1 - static_cast<int>(blockIdx.x) % tiles),
        head(static_cast<int>(blockIdx.x) / tiles % heads),
        b(static_cast<int>(blockIdx.x) / tiles / heads) {}
};

__device__ inline int tiles_of(int rows) { return (rows + kTile - 1) / kTile; }

// A block's queries of one head, from `begin` on. They attend only to keys before `last`.
struct QueryTile : Site {
  int begin, length, last;
  __device__ explicit QueryTile(const Common& op)
      : Site(tiles_of(op.query.rows), op.query.heads),
        begin(tile * kTile),
        length(static_cast<int>(op.pattern.length(b))),
        last(op.last_end(begin, length)) {}

  // Which scores count, for keys from `first` on.
  template <int kWidth>
  __device__ Bits<kWidth> attended(const Common& op, int first) const {
    if (op.attends_to_all(begin, first, length)) return {};
    return Bits<kWidth>([&](int row, int column) { return op.attends(b, head, begin + row, first + column, length); });
  }
  // Which weights dropout keeps, for keys from `first` on.
  template <int kWidth>
  __device__ Bits<kWidth> kept(const Common& op, int first) const {
    return Bits<kWidth>([&](int row, int column) { return op.keeps(b, head, begin + row, first + column); });
  }
};

template <class F>
void with_width(std::int64_t width, F&& f) {
  width <= 64    ? f(std::integral_constant<int, 64>{})
  : width <= 128 ? f(std::integral_constant<int, 128>{})
                 : f(std::integral_constant<int, 256>{});
}

inline unsigned int blocks_of(const ops::Heads& heads) {
  const Shape shape = heads.shape();
  return blocks_for(shape[0] * shape[2] * ((shape[1] + kTile - 1) / kTile), 1);
}

// Queues cuDNN's best plan. `arrays`: all but the heads that the op reads. Returns false and queues nothing if cuDNN
// has no plan, or if its numbers would differ, as with its own masks and dropout.
template <class Op>
bool run_with_cudnn(const Op& op, AttentionGraph::Result result, GraphArrays arrays, const Stream& stream) {
  const ops::AttentionOptions& options = op.options;
  const ops::AttentionHeads heads = op.heads();
  const DType dtype = op.query.dtype();
  const Shape query = heads.query.shape(), key = heads.key.shape();
  if (!is_16_bit(dtype) || key.count() == 0 || options.dropout != 0 || options.mask || options.key_lengths)
    return false;
  arrays.emplace_back(GraphArray::query, heads.query.data());
  arrays.emplace_back(GraphArray::key, heads.key.data());
  arrays.emplace_back(GraphArray::value, heads.value.data());
  const AttentionGraph graph{result, query, key, dtype, options.scale, options.is_causal, options.packed_queries > 0};
  return !run_best_plan(graph, arrays, stream);
}

}  // namespace giro::cuda::attention
