#pragma once

#include <cstdint>

#include <giro/runtime/stream.h>

#include "kernels/cuda/launch.h"
#include "kernels/functors/storage.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/stream.h"

// A matrix product in shared-memory tiles. Its operands are functors, so they need not exist as matrices. This is the
// fallback for products that cuBLASLt or cuDNN declines. No workspace; each element is summed in a fixed order.
namespace giro::cuda {

// An operand has `count` vectors, the rows or the columns of the product:
//   Place place(i)        where vector i is, i < count
//   Term term(t)          where term t of a vector is
//   float at(place, term)
//   kAlongTerms           whether neighbours in memory are terms of one vector, or one term of several vectors
template <bool kAlong, class T>
struct Matrix {
  using Place = std::int64_t;
  using Term = std::int64_t;
  static constexpr bool kAlongTerms = kAlong;

  const T* data;
  std::int64_t count, stride;  // stride: along the axis that is not contiguous

  __device__ Place place(std::int64_t i) const { return kAlong ? i * stride : i; }
  __device__ Term term(std::int64_t t) const { return kAlong ? t : t * stride; }
  __device__ float at(Place place, Term term) const { return static_cast<float>(data[place + term]); }
};

// Another operand with vectors and terms exchanged.
template <class Operand>
struct Exchanged {
  using Place = typename Operand::Term;
  using Term = typename Operand::Place;
  static constexpr bool kAlongTerms = !Operand::kAlongTerms;

  Operand operand;
  std::int64_t count;

  __device__ Place place(std::int64_t i) const { return operand.term(i); }
  __device__ Term term(std::int64_t t) const { return operand.place(t); }
  __device__ float at(const Place& place, const Term& term) const { return operand.at(term, place); }
};

namespace tiles {

constexpr int kTile = 32;      // rows and columns of the result that a block computes
constexpr int kDepth = 16;     // terms that it holds in shared memory at a time
constexpr int kThreads = 256;  // each computes 2 x 2 elements
constexpr int kSide = 16;      // kThreads as a square
constexpr int kEach = kTile / kSide;
constexpr int kLoads = kTile * kDepth / kThreads;

using Tile = float[kDepth][kTile + 1];  // an extra column, so that a warp's accesses fall into different banks

// Loads one operand's elements into tiles. Computes the places of this thread's vectors only once.
template <class Operand>
struct Loader {
  const Operand& operand;
  std::int64_t first;  // the block's first vector
  int thread;
  typename Operand::Place places[kLoads];

  // Neighbouring threads load neighbours in memory.
  __device__ int vector(int load) const {
    const int i = thread + load * kThreads;
    return Operand::kAlongTerms ? i / kDepth : i % kTile;
  }
  __device__ int depth(int load) const {
    const int i = thread + load * kThreads;
    return Operand::kAlongTerms ? i % kDepth : i / kTile;
  }
  __device__ bool exists(int load) const { return first + vector(load) < operand.count; }

  __device__ Loader(const Operand& of, std::int64_t begin, int of_thread)
      : operand(of), first(begin), thread(of_thread) {
    for (int load = 0; load < kLoads; ++load) {
      places[load] = operand.place(exists(load) ? first + vector(load) : 0);
    }
  }

  __device__ void load(Tile& tile, std::int64_t begin, std::int64_t terms) const {
    for (int load = 0; load < kLoads; ++load) {
      const std::int64_t t = begin + depth(load);
      const bool inside = exists(load) && t < terms;
      tile[depth(load)][vector(load)] = inside ? operand.at(places[load], operand.term(t)) : 0.0f;
    }
  }
};

// out (rows.count, columns.count), row-major: out[r, c] = sum over the terms of rows' vector r times columns' vector c.
template <class Rows, class Columns>
__global__ void tiled_product_kernel(functors::Output out, Rows rows, Columns columns, std::int64_t terms) {
  __shared__ Tile left, right;
  const std::int64_t across = (columns.count + kTile - 1) / kTile;
  const std::int64_t first_row = blockIdx.x / across * kTile, first_column = blockIdx.x % across * kTile;
  const int thread = static_cast<int>(threadIdx.x), y = thread / kSide, x = thread % kSide;
  const Loader<Rows> row_loader(rows, first_row, thread);
  const Loader<Columns> column_loader(columns, first_column, thread);

  float sums[kEach][kEach] = {};
  for (std::int64_t begin = 0; begin < terms; begin += kDepth) {
    row_loader.load(left, begin, terms);
    column_loader.load(right, begin, terms);
    __syncthreads();
    for (int t = 0; t < kDepth; ++t) {
      for (int i = 0; i < kEach; ++i) {
        for (int j = 0; j < kEach; ++j) sums[i][j] += left[t][y + i * kSide] * right[t][x + j * kSide];
      }
    }
    __syncthreads();
  }
  for (int i = 0; i < kEach; ++i) {
    for (int j = 0; j < kEach; ++j) {
      const std::int64_t row = first_row + y + i * kSide, column = first_column + x + j * kSide;
      if (row < rows.count && column < columns.count) out.store(row * columns.count + column, sums[i][j]);
    }
  }
}

}  // namespace tiles

// Queues the product; nothing if it has no elements.
template <class Rows, class Columns>
void tiled_product(const Tensor& out, const Rows& rows, const Columns& columns, std::int64_t terms,
                   const Stream& stream) {
  if (rows.count == 0 || columns.count == 0) return;
  const std::int64_t down = (rows.count + tiles::kTile - 1) / tiles::kTile;
  const std::int64_t across = (columns.count + tiles::kTile - 1) / tiles::kTile;
  tiles::tiled_product_kernel<<<blocks_for(down * across, 1), tiles::kThreads, 0, handle(stream)>>>(
      functors::Output(out), rows, columns, terms);
  check_launch("tiled_product_kernel");
}

}  // namespace giro::cuda
