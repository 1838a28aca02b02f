#pragma once

#include <cstddef>
#include <cstdint>

#include <giro/runtime/stream.h>

#include "kernels/cuda/last_block.cuh"
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

// Called by a whole block: the sum over every `stride`-th tile of 16 rows, from tile `first` on, in the block's 32
// columns. The threads of the first row get it. Element i of all rows is element(i), which is called once for each.
template <class Element>
__device__ float sum_of_tiles(const Element& element, std::int64_t rows, std::int64_t columns, std::int64_t first,
                              std::int64_t stride) {
  __shared__ float tile[kTileRows][kTileColumns];
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kTileColumns + threadIdx.x;
  float sum = 0.0f;
  if (column < columns) {
    for (std::int64_t row = first * kTileRows + threadIdx.y; row < rows; row += stride * kTileRows) {
      sum += element(row * columns + column);
    }
  }
  tile[threadIdx.y][threadIdx.x] = sum;
  for (unsigned int half = kTileRows / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.y < half) tile[threadIdx.y][threadIdx.x] += tile[threadIdx.y + half][threadIdx.x];
  }
  return threadIdx.y == 0 ? tile[0][threadIdx.x] : 0.0f;
}

// The rows are split over gridDim.y blocks. The last of them adds up the sums of all.
template <class Element>
__global__ void sum_rows_kernel(functors::Output out, float* partial, unsigned int* arrivals, Element element,
                                std::int64_t rows, std::int64_t columns) {
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kTileColumns + threadIdx.x;
  const bool writes = threadIdx.y == 0 && column < columns;
  float sum = sum_of_tiles(element, rows, columns, blockIdx.y, gridDim.y);
  if (gridDim.y > 1) {
    if (writes) partial[blockIdx.y * columns + column] = sum;
    if (!is_last_block(arrivals + blockIdx.x, gridDim.y)) return;
    sum = sum_of_tiles(Elements<float>{partial}, gridDim.y, columns, 0, 1);
  }
  if (writes) out.store(column, sum);
}

// out[c] = the sum over r of element(r columns + c), in an order that depends on the shape alone.
template <class Element>
void sum_rows_of(functors::Output out, std::int64_t rows, std::int64_t columns, Element element, const Stream& stream) {
  if (columns == 0) return;
  const unsigned int tiles = blocks_for(columns, kTileColumns);
  // Each column tile has its own arrival counter.
  const unsigned int splits = tiles > CudaStream::kArrivals ? 1 : blocks_for(rows, kRowsPerSplit, kMostSplits);
  const Buffer partial =
      splits == 1 ? Buffer() : stream.allocate(splits * static_cast<std::size_t>(columns) * sizeof(float));
  const dim3 grid(tiles, splits), block(kTileColumns, kTileRows);
  sum_rows_kernel<<<grid, block, 0, handle(stream)>>>(out, static_cast<float*>(partial.data()),
                                                      cuda_stream(stream).arrivals(), element, rows, columns);
  check_launch("sum_rows_kernel");
}

}  // namespace giro::cuda
