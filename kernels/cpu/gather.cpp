#include "kernels/functors/gather.h"

#include <cstring>

#include "kernels/cpu/for_each.h"
#include "kernels/functors/dtype_dispatch.h"
#include "kernels/internal/backends.h"

namespace giro::cpu {

void gather_rows(const Tensor& out, const Tensor& src, const Tensor& indices, const Stream& stream) {
  const std::int64_t rows = indices.count();
  if (rows == 0) return;
  const std::size_t row_bytes = out.bytes() / static_cast<std::size_t>(rows);
  functors::with_integer(indices.dtype(), [&]<class I>(functors::Type<I>) {
    submit(stream, [out = static_cast<char*>(out.raw()), src = static_cast<const char*>(src.raw()),
                    index = indices.data<I>(), rows, row_bytes] {
      const auto work = rows * static_cast<std::int64_t>(row_bytes / sizeof(float));
      for_each_block(rows, 8, work, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t r = begin; r < end; ++r) {
          std::memcpy(out + static_cast<std::size_t>(r) * row_bytes,
                      src + static_cast<std::size_t>(index[r]) * row_bytes, row_bytes);
        }
      });
    });
  });
}

void batch_indices(const Tensor& indices, const SlotRing& positions, const RowOrder& order, const Stream& stream) {
  functors::batch_indices(ForEach{stream}, indices, positions, order);
}

}  // namespace giro::cpu
