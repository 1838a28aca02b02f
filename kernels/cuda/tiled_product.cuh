#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <giro/runtime/stream.h>

#include "kernels/cuda/kernel_launch.cuh"
#include "kernels/elementwise.h"
#include "kernels/host_device/pool_windows.h"
#include "kernels/host_device/storage.h"
#include "kernels/ops.h"

// A matrix product in tiles, in true f32: each thread sums 8 x 8 elements in registers. The operands are functors, so
// they need not exist as matrices. This is the fallback for products that cuBLASLt or cuDNN declines. The order of each
// sum depends on the shapes alone.
namespace giro::cuda {

// An operand's vectors are the rows of the left matrix or the columns of the right one; each element of the product
// sums the terms of a row times those of a column. Neighbours in memory are terms of one vector or the same term of
// several vectors. The index along these neighbours is called inner, the other one outer. An operand has:
//   kAlongTerms                        whether the inner index is the term
//   const T* data
//   bool in_quads                      whether data can be loaded four elements at a time, from inner indices that are
//                                      multiples of 4
//   origin(first)                      what outer() needs of a block's first outer index, in slice blockIdx.z
//   outer(origin, i)                   what find() needs of outer index first + i
//   inner(i)                           what find() needs of inner index i
//   std::int64_t find(outer, inner)    the element's index in data; negative if the element is 0
template <class T>
using Quad = host_device::Pack<T, 4>;

// Whether elements can be accessed as Quads at multiples of `width` and of `slice` elements from the first.
inline bool in_quads(const Tensor& tensor, std::int64_t width, std::int64_t slice = 0) {
  return width % 4 == 0 && slice % 4 == 0 &&
         reinterpret_cast<std::uintptr_t>(tensor.raw()) % (4 * size_of(tensor.dtype())) == 0;
}

// The first three, for the elements of a tensor.
template <bool kAlong, class T>
struct Operand {
  static constexpr bool kAlongTerms = kAlong;

  const T* data;
  bool in_quads;

  explicit Operand(const Tensor& tensor, std::int64_t width, std::int64_t slice = 0)
      : data(tensor.data<T>()), in_quads(cuda::in_quads(tensor, width, slice)) {}
};

template <bool kAlong, class T>
struct Matrix : Operand<kAlong, T> {
  std::int64_t width, slice;  // distances in data to the next outer index and to the next slice

  explicit Matrix(const Tensor& tensor, std::int64_t width, std::int64_t slice = 0)
      : Operand<kAlong, T>(tensor, width, slice), width(width), slice(slice) {}

  __device__ std::int64_t origin(std::int64_t first) const { return blockIdx.z * slice + first * width; }
  __device__ std::int64_t outer(std::int64_t origin, int i) const { return origin + i * width; }
  __device__ std::int64_t inner(std::int64_t i) const { return i; }
  __device__ std::int64_t find(std::int64_t outer, std::int64_t inner) const { return outer + inner; }
};

// The product of a (rows, terms) and a (terms, columns) matrix, stored row-major in `out` after the bias of each
// column, unless empty, and the relu. Or up to 65535 such products, in slices of `out`.
struct Product {
  Tensor out;
  std::int64_t rows, columns, terms;
  Tensor bias = {};  // out's dtype or f32; for all slices, one after another
  bool relu = false;
  std::int64_t slices = 1;
  // Distances in `out` to the next row and to the next slice. 0: contiguous.
  std::int64_t row_stride = 0, slice = 0;
};

namespace tiles {

constexpr int kDepth = 8;  // terms of a tile in shared memory at a time
constexpr int kThreads = 64;

// Each warp sums 64 rows by 32 columns.
struct Square {
  static constexpr int kRows = 64, kColumns = 64;
};
struct Narrow {
  static constexpr int kRows = 128, kColumns = 32;
};

// The padding keeps vectors aligned, and puts 16 vectors of two quads of terms into different banks.
template <int kVectors>
using Terms = float[kDepth][kVectors + 4];

// Moves an operand's elements from global memory through registers to shared memory. Each thread loads quads of
// neighbours in memory, all quads at the same inner index.
template <class Of, int kVectors, bool kInQuads>
class Loader {
 public:
  // For vectors [first, count) and terms [begin, end). Vectors beyond the last are copies of it, and terms beyond the
  // last are 0.
  __device__ Loader(const Of& operand, std::int64_t first, std::int64_t count, std::int64_t begin, std::int64_t end)
      : operand_(operand),
        begin_(begin),
        terms_(static_cast<int>(end - begin)),
        origin_(operand.origin(kAlong ? first : begin)) {
#pragma unroll
    for (int i = 0; i < (kAlong ? kLoads : 4); ++i) {
      if constexpr (kAlong) {
        outer_[i] = operand.outer(origin_, static_cast<int>(min(std::int64_t{outer(i)}, count - 1 - first)));
      } else {
        inner_[i] = operand.inner(min(first + inner() + i, count - (kInQuads ? 4 : 1)));
      }
    }
  }

  // `from`: the tile's first term, counted from `begin`.
  __device__ void load(int from) {
    if constexpr (kAlong) {
      from += inner();
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (i == 0 || !kInQuads) inner_[i] = operand_.inner(begin_ + from + i);
      }
    }
#pragma unroll
    for (int load = 0; load < kLoads; ++load) {
      if constexpr (kAlong) {
        load_quad(values_[load], outer_[load], terms_ - from);
      } else {
        const int term = from + outer(load);
        load_quad(values_[load], operand_.outer(origin_, term), term < terms_ ? 4 : 0);
      }
    }
  }

  // Converts here because converting in load() would wait for the loads.
  __device__ void store(Terms<kVectors>& terms) const {
#pragma unroll
    for (int load = 0; load < kLoads; ++load) {
      Quad<float> values;
#pragma unroll
      for (int i = 0; i < 4; ++i) values.element[i] = static_cast<float>(values_[load].element[i]);
      if constexpr (kAlong) {
#pragma unroll
        for (int i = 0; i < 4; ++i) terms[inner() + i][outer(load)] = values.element[i];
      } else {
        *reinterpret_cast<Quad<float>*>(&terms[outer(load)][inner()]) = values;
      }
    }
  }

 private:
  using T = std::remove_cvref_t<decltype(*Of::data)>;
  using Origin = decltype(std::declval<const Of&>().origin(0));
  using Outer = decltype(std::declval<const Of&>().outer(std::declval<Origin>(), 0));
  using Inner = decltype(std::declval<const Of&>().inner(0));
  static constexpr bool kAlong = Of::kAlongTerms;
  static constexpr int kLoads = kVectors * kDepth / 4 / kThreads;
  static constexpr int kInnerQuads = (kAlong ? kDepth : kVectors) / 4;

  __device__ static int inner() { return static_cast<int>(threadIdx.x) % kInnerQuads * 4; }
  __device__ static int outer(int load) { return (static_cast<int>(threadIdx.x) + load * kThreads) / kInnerQuads; }

  // Elements from number `exist` on are 0.
  __device__ void load_quad(Quad<T>& to, const Outer& outer, int exist) const {
    if constexpr (kInQuads) {
      const std::int64_t at = exist > 0 ? operand_.find(outer, inner_[0]) : -1;
      to = at < 0 ? Quad<T>{} : *reinterpret_cast<const Quad<T>*>(operand_.data + at);
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const std::int64_t at = i < exist ? operand_.find(outer, inner_[i]) : -1;
        to.element[i] = at < 0 ? T{} : operand_.data[at];
      }
    }
  }

  const Of& operand_;
  const std::int64_t begin_;
  const int terms_;
  const Origin origin_;
  Outer outer_[kAlong ? kLoads : 1];
  Inner inner_[4];
  Quad<T> values_[kLoads];
};

// Where the product is stored, after a bias and a relu, which round as separate ops would.
struct Result {
  void* data;
  DType dtype;
  std::int64_t rows, columns, row_stride, slice;
  std::int64_t count;  // of all slices
  const void* bias;    // null for none
  DType bias_dtype;
  bool relu;
  bool in_quads;

  Result(const Product& p, const Tensor& out, const Tensor& bias = {}, bool relu = false)
      : data(out.raw()),
        dtype(out.dtype()),
        rows(p.rows),
        columns(p.columns),
        row_stride(p.row_stride > 0 ? p.row_stride : p.columns),
        slice(p.slice > 0 ? p.slice : p.rows * p.columns),
        count(p.slices * p.rows * p.columns),
        bias(bias.raw()),
        bias_dtype(bias.dtype()),
        relu(relu),
        in_quads(columns % 4 == 0 && cuda::in_quads(out, row_stride, slice)) {}

  // In slice blockIdx.z of array blockIdx.y.
  __device__ void store(std::int64_t row, std::int64_t column, const Quad<float>& sums) const {
    if (dtype == DType::bf16) {
      store_as<BFloat16>(row, column, sums);
    } else if (dtype == DType::f16) {
      store_as<Float16>(row, column, sums);
    } else {
      store_as<float>(row, column, sums);
    }
  }

 private:
  template <class T>
  __device__ void store_as(std::int64_t row, std::int64_t column, const Quad<float>& sums) const {
    T* const to = static_cast<T*>(data) + blockIdx.y * count + blockIdx.z * slice + row * row_stride + column;
    Quad<T> quad;
    for (int i = 0; i < 4; ++i) {
      if (column + i < columns) quad.element[i] = value<T>(sums.element[i], blockIdx.z * columns + column + i);
    }
    if (in_quads) {
      *reinterpret_cast<Quad<T>*>(to) = quad;
    } else {
      for (int i = 0; i < 4; ++i) {
        if (column + i < columns) to[i] = quad.element[i];
      }
    }
  }

  template <class T>
  __device__ T value(float sum, std::int64_t bias_at) const {
    float value = host_device::stored<T>(sum);
    if (bias != nullptr) {
      value = host_device::stored<T>(value + (bias_dtype == DType::f32
                                                  ? static_cast<const float*>(bias)[bias_at]
                                                  : static_cast<float>(static_cast<const T*>(bias)[bias_at])));
    }
    return T(relu ? host_device::Relu::value(value) : value);
  }
};

// out[r, c] = sum over the terms of vector r of `rows` times vector c of `columns`, in each slice. The blocks of each
// blockIdx.y sum `depth` of the terms into their own array; these arrays are consecutive.
// The launch bounds require only one block per multiprocessor: otherwise ptxas spills registers to fit more.
template <class Tile, bool kInQuads, class Rows, class Columns>
__global__ void __launch_bounds__(kThreads, 1)
    tiled_product_kernel(Result out, Rows rows, Columns columns, std::int64_t terms, int depth) {
  constexpr int kRows = Tile::kRows, kColumns = Tile::kColumns;
  struct Stage {
    Terms<kRows> rows;
    Terms<kColumns> columns;
  };
  __shared__ union alignas(16) {
    Stage stages[2];
    float sums[kRows][kColumns + 4];
  } shared;

  const auto across = static_cast<unsigned int>((out.columns + kColumns - 1) / kColumns);
  const std::int64_t first_row = std::int64_t{blockIdx.x / across} * kRows;
  const std::int64_t first_column = std::int64_t{blockIdx.x % across} * kColumns;
  const std::int64_t begin = std::int64_t{blockIdx.y} * depth, end = min(begin + depth, terms);
  const int count = static_cast<int>(end - begin);
  Loader<Rows, kRows, kInQuads> row_loader(rows, first_row, out.rows, begin, end);
  Loader<Columns, kColumns, kInQuads> column_loader(columns, first_column, out.columns, begin, end);
  const auto load = [&](int from) {
    row_loader.load(from);
    column_loader.load(from);
  };
  const auto store = [&](Stage& stage) {
    row_loader.store(stage.rows);
    column_loader.store(stage.columns);
  };

  // The thread's rows are row + {0 1 2 3 32 33 34 35}, its columns are column + {0 1 2 3 16 17 18 19}. Lanes that
  // differ only in bit 0 share their rows, and lanes that differ only in bit 1 their columns, so that a warp's load
  // takes two accesses to shared memory.
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int warp_row = warp % (kRows / 64) * 64, warp_column = warp / (kRows / 64) * 32;
  const int row = warp_row + lane / 2 % 8 * 4, column = warp_column + (lane / 16 * 2 + lane % 2) * 4;
  const bool has_elements = first_row + warp_row < out.rows && first_column + warp_column < out.columns;
  const auto quad_at = [](float& element) -> Quad<float>& { return reinterpret_cast<Quad<float>&>(element); };

  float sums[8][8] = {};
  const auto multiply = [&](Stage& stage) {
#pragma unroll
    for (int term = 0; term < kDepth; ++term) {
      const Quad<float> left[2] = {quad_at(stage.rows[term][row]), quad_at(stage.rows[term][row + 32])};
      const Quad<float> right[2] = {quad_at(stage.columns[term][column]), quad_at(stage.columns[term][column + 16])};
      for (int i = 0; i < 8; ++i) {
        for (int j = 0; j < 8; ++j) sums[i][j] += left[i / 4].element[i % 4] * right[j / 4].element[j % 4];
      }
    }
  };

  load(0);
  store(shared.stages[0]);
  __syncthreads();
  int current = 0;
  for (int from = 0; from < count; from += kDepth) {
    const bool is_last = from + kDepth >= count;
    if (!is_last) load(from + kDepth);
    if (has_elements) multiply(shared.stages[current]);
    current = 1 - current;
    if (!is_last) store(shared.stages[current]);
    __syncthreads();
  }

  // Through shared memory, so that each warp writes neighbours.
  for (int i = 0; i < 8; ++i) {
    for (int j = 0; j < 8; j += 4) {
      quad_at(shared.sums[row + i / 4 * 32 + i % 4][column + j * 4]) = {sums[i][j], sums[i][j + 1], sums[i][j + 2],
                                                                        sums[i][j + 3]};
    }
  }
  __syncthreads();
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kColumns / 4; i += kThreads) {
    const int down = i / (kColumns / 4), right = i % (kColumns / 4) * 4;
    if (first_row + down >= out.rows || first_column + right >= out.columns) continue;
    out.store(first_row + down, first_column + right, quad_at(shared.sums[down][right]));
  }
}

constexpr std::int64_t kBlocks = 528;    // four per multiprocessor of a large GPU
constexpr std::int64_t kMinTerms = 128;  // per block, for splitting a sum to pay off

template <class Tile, class Rows, class Columns>
void tiled_product(const Product& p, const Rows& rows, const Columns& columns, const Stream& stream) {
  const auto quotient = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  const std::int64_t tiles = quotient(p.rows, Tile::kRows) * quotient(p.columns, Tile::kColumns);
  const std::int64_t wanted = std::min(kBlocks / (tiles * p.slices), p.terms / kMinTerms);
  // A block counts its terms in an int.
  const std::int64_t least = std::max<std::int64_t>(1, p.terms >> 29);
  const std::int64_t steps = quotient(quotient(p.terms, std::max(wanted, least)), kDepth);
  const auto depth = static_cast<int>(std::max<std::int64_t>(steps, 1) * kDepth);
  const std::int64_t splits = std::max<std::int64_t>(quotient(p.terms, depth), 1);
  const auto launch = [&](const Result& result) {
    const auto kernel = rows.in_quads && columns.in_quads ? tiled_product_kernel<Tile, true, Rows, Columns>
                                                          : tiled_product_kernel<Tile, false, Rows, Columns>;
    const dim3 blocks(blocks_for(tiles, 1), static_cast<unsigned int>(splits), static_cast<unsigned int>(p.slices));
    kernel<<<blocks, kThreads, 0, handle(stream)>>>(result, rows, columns, p.terms, depth);
    check_launch("tiled_product_kernel");
  };
  if (splits == 1) return launch(Result(p, p.out, p.bias, p.relu));
  const std::int64_t count = p.slices * p.rows * p.columns;
  const Temporary sums(DType::f32, {splits, count}, stream);
  launch(Result(p, sums));
  cuda::run(ops::SumRows{p.out.reshape({count}), sums}, stream);
  ops::add_bias(p.out, p.bias, stream, p.relu);
}

}  // namespace tiles

// Queues the product; nothing if it has no elements.
template <class Rows, class Columns>
void tiled_product(const Product& p, const Rows& rows, const Columns& columns, const Stream& stream) {
  if (p.rows == 0 || p.columns == 0) return;
  if (p.columns <= tiles::Narrow::kColumns) {
    tiles::tiled_product<tiles::Narrow>(p, rows, columns, stream);
  } else {
    tiles::tiled_product<tiles::Square>(p, rows, columns, stream);
  }
}

}  // namespace giro::cuda
