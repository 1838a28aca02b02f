#include "kernels/host_device/scattered.h"

#include <algorithm>

#include "kernels/cpu/for_each.h"
#include "kernels/ops.h"

namespace giro::cpu {

void run(const ops::ScatterAdd& op, const Stream& stream) {
  if (op.sums.count() == 0) return;
  const std::int64_t size = op.sums.shape()[0], width = op.sums.count() / size, count = op.indices.count();
  host_device::with_updates(op.updates.dtype(), [&]<class T>(host_device::Type<T>) {
    using Sum = host_device::SumOf<T>;
    host_device::with_integer(op.indices.dtype(), [&]<class Index>(host_device::Type<Index>) {
      const host_device::Scattered<Index> rows{op.indices.data<Index>(),
                                               op.order ? op.order.data<std::int64_t>() : nullptr, size};
      submit(
          stream, [sums = static_cast<Sum*>(op.sums.raw()), updates = op.updates.data<T>(), rows, size, width, count] {
            for_each_block(size * width, 8 * kBlock, size * width,
                           [&](std::int64_t begin, std::int64_t end) { std::fill(sums + begin, sums + end, Sum(0)); });
            constexpr std::int64_t kRows = 64;
            for_each_block(count, kRows, count * width, [&](std::int64_t begin, std::int64_t end) {
              // The block that has a key's first row adds all rows of that key.
              const auto is_first = [&](std::int64_t i) { return i == 0 || rows.key(i - 1) != rows.key(i); };
              while (begin < end && !is_first(begin)) ++begin;
              if (begin == end) return;
              for (std::int64_t i = begin; i < count && (i < end || !is_first(i)); ++i) {
                const std::int64_t key = rows.key(i);
                if (key < 0) continue;
                Sum* const sum = sums + key * width;
                const T* const row = updates + rows.source_row(i) * width;
#pragma omp simd
                for (std::int64_t c = 0; c < width; ++c) sum[c] += static_cast<Sum>(row[c]);
              }
            });
          });
    });
  });
}

}  // namespace giro::cpu
