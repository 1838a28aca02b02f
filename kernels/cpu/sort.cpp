#include "kernels/host_device/sort_entry.h"

#include <algorithm>

#include "kernels/cpu/for_each.h"
#include "kernels/ops.h"
#include "runtime/dtype_dispatch.h"

namespace giro::cpu {

void run(const ops::ArgSort& op, const Stream& stream) {
  const std::int64_t rows = op.x.shape()[0], length = op.x.shape()[1], kept = op.indices.shape()[1];
  if (op.indices.count() == 0) return;
  host_device::with_any(op.x.dtype(), [&]<class T>(host_device::Type<T>) {
    using Entry = host_device::EntryOf<T>;
    const Buffer memory = stream.allocate(static_cast<std::size_t>(op.x.count()) * sizeof(Entry));
    submit(stream, [indices = op.indices.data<std::int64_t>(), x = op.x.data<T>(),
                    entries = static_cast<Entry*>(memory.data()), rows, length, kept, descending = op.descending] {
      constexpr std::int64_t kCost = 16;  // of an element
      for_each_block(rows, 1, kCost * rows * length, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t r = begin; r < end; ++r) {
          Entry* const row = entries + r * length;
          for (std::int64_t i = 0; i < length; ++i) row[i] = host_device::entry(x + r * length, i, descending);
          kept < length ? std::partial_sort(row, row + kept, row + length) : std::sort(row, row + length);
          for (std::int64_t i = 0; i < kept; ++i) indices[r * kept + i] = row[i].index();
        }
      });
    });
  });
}

}  // namespace giro::cpu
