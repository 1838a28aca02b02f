#pragma once

#include <cstddef>
#include <cstdint>

#include <giro/runtime/stream.h>

#include "kernels/cuda/launch.h"
#include "kernels/functors/storage.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/stream.h"

namespace giro::cuda {

constexpr int kTileColumns = 32;
constexpr int kTileRows = 16;
constexpr std::int64_t kRowsPerSplit = 32 * kTileRows;
constexpr std::int64_t kMostSplits = 256;

template <class T>
struct Elements {
  const T* x;
  __device__ float operator()(std::int64_t i) const { return static_cast<float>(x[i]); }
};

// A block adds up every gridDim.y-th tile of 16 rows in 32 columns: out[split, c]. Element i of all rows is element(i),
// which is called once for each.
template <class Element>
__global__ void sum_rows_kernel(functors::Output out, Element element, std::int64_t rows, std::int64_t columns) {
  __shared__ float tile[kTileRows][kTileColumns];
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kTileColumns + threadIdx.x;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.y) * kTileRows;
  float sum = 0.0f;
  if (column < columns) {
    for (std::int64_t row = static_cast<std::int64_t>(blockIdx.y) * kTileRows + threadIdx.y; row < rows;
         row += stride) {
      sum += element(row * columns + column);
    }
  }
  tile[threadIdx.y][threadIdx.x] = sum;
  for (unsigned int half = kTileRows / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.y < half) tile[threadIdx.y][threadIdx.x] += tile[threadIdx.y + half][threadIdx.x];
  }
  if (threadIdx.y == 0 && column < columns) out.store(blockIdx.y * columns + column, tile[0][threadIdx.x]);
}

template <class Element>
void launch_sum_rows(functors::Output out, std::int64_t rows, std::int64_t columns, unsigned int splits,
                     Element element, const Stream& stream) {
  const dim3 grid(blocks_for(columns, kTileColumns), splits), block(kTileColumns, kTileRows);
  sum_rows_kernel<<<grid, block, 0, handle(stream)>>>(out, element, rows, columns);
  check_launch("sum_rows_kernel");
}

// out[c] = the sum over r of element(r columns + c), in one pass or two; in an order that depends on the shape alone.
template <class Element>
void sum_rows_of(functors::Output out, std::int64_t rows, std::int64_t columns, Element element, const Stream& stream) {
  if (columns == 0) return;
  const unsigned int splits = blocks_for(rows, kRowsPerSplit, kMostSplits);
  if (splits == 1) return launch_sum_rows(out, rows, columns, 1, element, stream);
  const Buffer buffer = stream.allocate(splits * static_cast<std::size_t>(columns) * sizeof(float));
  float* const partial = static_cast<float*>(buffer.data());
  launch_sum_rows(functors::Output(partial), rows, columns, splits, element, stream);
  launch_sum_rows(out, splits, columns, 1, Elements<float>{partial}, stream);
}

}  // namespace giro::cuda
