#include "kernels/host_device/sort_entry.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "kernels/cuda/kernel_launch.cuh"
#include "kernels/ops.h"
#include "runtime/dtype_dispatch.h"

namespace giro::cuda {
namespace {

constexpr int kItems = 4;  // per thread

// Rows whose runs of `span` elements are sorted. Keeps the first `kept` entries of each run, one run after the other.
struct Runs {
  std::int64_t length, kept, span;
  std::int64_t count, stride, pitch;  // runs per row; entries from run to run and from row to row

  Runs(std::int64_t length, std::int64_t kept, std::int64_t span)
      : length(length),
        kept(kept),
        span(span),
        count((length + span - 1) / span),
        stride(std::min(kept, span)),
        pitch(std::min(length, count * stride)) {}
  GIRO_HOST_DEVICE std::int64_t size(std::int64_t run) const {
    const std::int64_t rest = length - run * span;
    return rest < stride ? rest : stride;
  }
};

// How many of a run's entries are smaller, which is where the entry belongs among them.
template <class Entry>
__device__ std::int64_t count_smaller(const Entry* run, std::int64_t size, const Entry& than) {
  std::int64_t begin = 0, end = size;
  while (begin < end) {
    const std::int64_t middle = (begin + end) / 2;
    if (run[middle] < than) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

// One block per run. It merges runs of 1, 2, 4, ... entries until one is left.
template <int kThreads, class T>
__global__ void __launch_bounds__(kThreads)
    sort_runs_kernel(host_device::EntryOf<T>* entries, std::int64_t* indices, const T* x, std::int64_t rows, Runs runs,
                     bool descending) {
  using Entry = host_device::EntryOf<T>;
  constexpr int kSpan = kThreads * kItems;
  __shared__ alignas(Entry) unsigned char memory[2 * kSpan * sizeof(Entry)];
  const int first = static_cast<int>(threadIdx.x);
  for (std::int64_t block = blockIdx.x; block < rows * runs.count; block += gridDim.x) {
    const std::int64_t row = block / runs.count, run = block - row * runs.count;
    const int size = static_cast<int>(min(runs.length - run * kSpan, std::int64_t(kSpan)));
    auto *from = reinterpret_cast<Entry*>(memory), *to = from + kSpan;
    for (int i = first; i < size; i += kThreads) {
      from[i] = host_device::entry(x + row * runs.length, run * kSpan + i, descending);
    }
    for (int width = 1; width < size; width *= 2) {
      __syncthreads();
      for (int i = first; i < size; i += kThreads) {
        const Entry own = from[i];
        const int begin = i & -width, other = begin ^ width;
        to[i - (begin & width) + count_smaller(from + other, min(width, size - other), own)] = own;
      }
      Entry* const merged = to;
      to = from, from = merged;
    }
    __syncthreads();
    for (int i = first; i < runs.size(run); i += kThreads) {
      if (entries == nullptr) {
        indices[row * runs.kept + i] = from[i].index();
      } else {
        entries[row * runs.pitch + run * runs.stride + i] = from[i];
      }
    }
    __syncthreads();  // before the memory is reused
  }
}

// Merges neighbouring runs in pairs: an entry's index in the merged run is its index in its own run plus the number of
// smaller entries in the other.
template <class Entry>
struct MergeRuns {
  Entry* merged;          // null in the last merge
  std::int64_t* indices;  // written by the last merge
  const Entry* entries;
  Runs runs, next;

  __device__ void operator()(std::int64_t i) const {
    const std::int64_t row = i / runs.pitch, at = i - row * runs.pitch, run = at / runs.stride;
    const std::int64_t index = at - run * runs.stride;
    if (index >= runs.size(run)) return;
    const Entry own = entries[i];
    const std::int64_t other = run ^ 1;
    const Entry* const entries_of_other = entries + row * runs.pitch + other * runs.stride;
    const std::int64_t before = other < runs.count ? count_smaller(entries_of_other, runs.size(other), own) : 0;
    const std::int64_t to = index + before;
    if (to >= next.stride) return;
    if (merged == nullptr) {
      indices[row * next.kept + to] = own.index();
    } else {
      merged[row * next.pitch + run / 2 * next.stride + to] = own;
    }
  }
};

}  // namespace

void run(const ops::ArgSort& op, const Stream& stream) {
  const std::int64_t rows = op.x.shape()[0], length = op.x.shape()[1], kept = op.indices.shape()[1];
  if (op.indices.count() == 0) return;
  host_device::with_any(op.x.dtype(), [&]<class T>(host_device::Type<T>) {
    using Entry = host_device::EntryOf<T>;
    std::int64_t* const indices = op.indices.data<std::int64_t>();
    const auto sort = [&]<int kThreads>(std::integral_constant<int, kThreads>) {
      Runs runs(length, kept, kThreads * kItems);
      const bool is_whole = runs.count == 1;
      const std::size_t bytes = is_whole ? 0 : static_cast<std::size_t>(rows * runs.pitch) * sizeof(Entry);
      const Buffer first = stream.allocate(bytes), second = stream.allocate(bytes);
      auto *from = static_cast<Entry*>(first.data()), *to = static_cast<Entry*>(second.data());
      sort_runs_kernel<kThreads, T><<<blocks_for(rows * runs.count, 1), kThreads, 0, handle(stream)>>>(
          is_whole ? nullptr : from, indices, op.x.data<T>(), rows, runs, op.descending);
      check_launch("sort_runs_kernel");
      while (runs.count > 1) {
        const Runs next(length, kept, 2 * runs.span);
        for_each(stream, rows * runs.pitch, MergeRuns<Entry>{next.count > 1 ? to : nullptr, indices, from, runs, next});
        std::swap(from, to);
        runs = next;
      }
    };
    length <= 128 ? sort(std::integral_constant<int, 32>{}) : sort(std::integral_constant<int, 256>{});
  });
}

}  // namespace giro::cuda
