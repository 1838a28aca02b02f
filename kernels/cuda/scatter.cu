#include "kernels/host_device/scattered.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>

#include "kernels/cuda/kernel_launch.cuh"
#include "kernels/ops.h"

namespace giro::cuda {
namespace {

constexpr int kTile = 16;  // rows that a thread adds

template <class Index>
struct FindKeys {
  std::int64_t* keys;
  host_device::Scattered<Index> rows;
  GIRO_HOST_DEVICE void operator()(std::int64_t i) const { keys[i] = rows.key(i); }
};

// Adds rows with equal keys; each call handles one column of a tile of rows. A run of equal keys that lies within the
// tile is complete and becomes a sum. The others, at most the tile's first and last runs, become two rows for the next
// pass, which adds them to the neighbouring tiles' rows, so that runs of any length are added in a tree. If a tile does
// not need both rows, the spare ones have the key -1, which is ignored, or are zero.
template <class T, class Sum>
struct AddRuns {
  Sum *sums, *rest;  // rest is null for a single tile
  std::int64_t* keys_of_rest;
  const T* rows;
  const std::int64_t *keys, *order;  // order may be null
  std::int64_t count, width;

  __device__ void operator()(std::int64_t tile, std::int64_t column) const {
    const std::int64_t begin = tile * kTile;
    const int size = count - begin < kTile ? static_cast<int>(count - begin) : kTile;
    Sum values[kTile];
#pragma unroll
    for (int k = 0; k < kTile; ++k) {
      if (k < size)
        values[k] = static_cast<Sum>(rows[(order == nullptr ? begin + k : order[begin + k]) * width + column]);
    }
    const bool has_before = begin > 0 && keys[begin - 1] == keys[begin];
    const bool has_after = begin + size < count && keys[begin + size - 1] == keys[begin + size];
    std::int64_t key = keys[begin], first_key = -1, last_key = -1;
    Sum total = values[0], first = Sum(0), last = Sum(0);
    bool is_first = true;  // of the tile's runs
#pragma unroll
    for (int k = 1; k < kTile; ++k) {
      if (k >= size) continue;
      const std::int64_t next = keys[begin + k];
      if (next == key) {
        total += values[k];
        continue;
      }
      if (is_first && has_before) {
        first_key = key, first = total;
      } else if (key >= 0) {
        sums[key * width + column] = total;
      }
      is_first = false, key = next, total = values[k];
    }
    if (is_first && (has_before || has_after)) {
      first_key = last_key = key, first = total;
    } else if (has_after) {
      last_key = key, last = total;
    } else if (key >= 0) {
      sums[key * width + column] = total;
    }
    if (rest == nullptr) return;
    rest[2 * tile * width + column] = first;
    rest[(2 * tile + 1) * width + column] = last;
    if (column != 0) return;
    keys_of_rest[2 * tile] = first_key;
    keys_of_rest[2 * tile + 1] = last_key;
  }
};

constexpr int kScatterThreads = 256;

// Each block covers some columns and, if these are few, several tiles.
template <class T, class Sum>
__global__ void __launch_bounds__(kScatterThreads)
    add_runs_kernel(AddRuns<T, Sum> add, std::int64_t tiles, unsigned int blocks_of_columns) {
  const unsigned int of_tiles = blockIdx.x / blocks_of_columns, of_columns = blockIdx.x - of_tiles * blocks_of_columns;
  const std::int64_t tile = static_cast<std::int64_t>(of_tiles) * blockDim.y + threadIdx.y;
  const std::int64_t column = static_cast<std::int64_t>(of_columns) * blockDim.x + threadIdx.x;
  if (tile < tiles && column < add.width) add(tile, column);
}

}  // namespace

void run(const ops::ScatterAdd& op, const Stream& stream) {
  if (op.sums.count() == 0) return;
  stream.fill(op.sums.raw(), 0, op.sums.bytes());
  const std::int64_t size = op.sums.shape()[0], width = op.sums.count() / size;
  const auto tiles = [](std::int64_t rows) { return (rows + kTile - 1) / kTile; };
  std::int64_t count = op.indices.count();
  if (count == 0) return;
  const unsigned int columns = std::bit_ceil(static_cast<unsigned int>(std::min<std::int64_t>(width, kScatterThreads)));
  const dim3 threads(columns, kScatterThreads / columns);
  const unsigned int blocks_of_columns = blocks_for(width, columns);
  Temporary keys(DType::i64, {count}, stream);
  host_device::with_integer(op.indices.dtype(), [&]<class Index>(host_device::Type<Index>) {
    const std::int64_t* const order = op.order ? op.order.data<std::int64_t>() : nullptr;
    for_each(stream, count, FindKeys<Index>{keys.data<std::int64_t>(), {op.indices.data<Index>(), order, size}});
  });
  host_device::with_updates(op.updates.dtype(), [&]<class T>(host_device::Type<T>) {
    using Sum = host_device::SumOf<T>;
    Temporary rows;  // of the passes after the first
    const auto add = [&]<class Row>(const Row* from, const std::int64_t* order) {
      const std::int64_t next = tiles(count) > 1 ? 2 * tiles(count) : 0;
      Temporary rest, keys_of_rest;
      if (next > 0) {
        rest = Temporary(op.sums.dtype(), {next, width}, stream);
        keys_of_rest = Temporary(DType::i64, {next}, stream);
      }
      add_runs_kernel<Row, Sum>
          <<<blocks_for(tiles(count), threads.y) * blocks_of_columns, threads, 0, handle(stream)>>>(
              {static_cast<Sum*>(op.sums.raw()), static_cast<Sum*>(rest.raw()),
               static_cast<std::int64_t*>(keys_of_rest.raw()), from, keys.data<std::int64_t>(), order, count, width},
              tiles(count), blocks_of_columns);
      check_launch("add_runs_kernel");
      rows = std::move(rest), keys = std::move(keys_of_rest), count = next;
    };
    add(op.updates.data<T>(), op.order ? op.order.data<std::int64_t>() : nullptr);
    while (count > 0) add(static_cast<const Sum*>(rows.raw()), nullptr);
  });
}

}  // namespace giro::cuda
