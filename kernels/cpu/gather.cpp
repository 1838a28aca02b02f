#include "kernels/host_device/batch_indices.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/for_each.h"
#include "kernels/host_device/fault.h"
#include "kernels/host_device/storage.h"
#include "kernels/ops.h"

namespace giro::cpu {

void run(const ops::GatherRows& op, const Stream& stream) {
  if (op.out.count() == 0) return;
  const std::int64_t count = op.indices.count(), size = op.src.shape().begin()[op.axis], rows = op.outer() * count;
  const std::size_t row_bytes = op.out.bytes() / static_cast<std::size_t>(rows);
  host_device::with_integer(op.indices.dtype(), [&]<class I>(host_device::Type<I>) {
    submit(stream, [out = static_cast<char*>(op.out.raw()), src = static_cast<const char*>(op.src.raw()),
                    indices = op.indices.data<I>(), missing = host_device::missing(op.src.dtype()), count, size, rows,
                    row_bytes, fault = host_device::Fault(op.fault)] {
      constexpr std::int64_t kRowsTogether = 64;
      const auto work = static_cast<std::int64_t>(static_cast<std::size_t>(rows) * (row_bytes / sizeof(float) + 1));
      for_each_block(rows, kRowsTogether, work, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t r = begin; r < end; ++r) {
          const auto index = static_cast<std::int64_t>(indices[r % count]);
          char* const to = out + static_cast<std::size_t>(r) * row_bytes;
          if (index >= 0 && index < size) {
            std::memcpy(to, src + static_cast<std::size_t>(r / count * size + index) * row_bytes, row_bytes);
          } else {
            if (r < count) fault(r, index);
            for (std::size_t b = 0; b < row_bytes; ++b) to[b] = static_cast<char>(missing >> (8 * (b % 8)));
          }
        }
      });
    });
  });
}

void run(const ops::BatchIndices& op, const Stream& stream) {
  for_each(
      stream, op.indices.count(),
      host_device::BatchIndices{op.indices.data<std::int64_t>(), host_device::CurrentSlot(op.positions()), op.order});
}

namespace {

constexpr std::size_t kLine = 64;  // bytes of a cache line

// Prefetches `next`, a row to be read later: a dataset's rows are scattered in memory, and no cache holds them.
template <class T>
void scale_bytes(T* out, const std::uint8_t* row, const std::uint8_t* next, std::size_t count, float factor) {
  std::size_t i = 0;
  for (; i + kLine <= count; i += kLine) {
    __builtin_prefetch(next + i);
#pragma omp simd
    for (std::size_t k = 0; k < kLine; ++k) out[i + k] = T(factor * static_cast<float>(row[i + k]));
  }
  __builtin_prefetch(next + i);
  for (; i < count; ++i) out[i] = T(factor * static_cast<float>(row[i]));
}

}  // namespace

void run(const ops::GatherBatch& op, const Stream& stream) {
  const std::int64_t rows = op.arrays.front().out.shape()[0];
  std::int64_t work = 0;
  for (const ops::GatheredArray& array : op.arrays)
    work += static_cast<std::int64_t>(array.out.bytes() / sizeof(float));
  const host_device::CurrentSlot position(op.positions());
  submit(stream, [arrays = op.arrays, rows, work, position, order = op.order] {
    const std::int64_t first = *reinterpret_cast<const std::int64_t*>(position());
    constexpr std::int64_t kRows = 32, kAhead = 2;
    for_each_block(rows, kRows, work, [&](std::int64_t begin, std::int64_t end) {
      std::int64_t index[kRows];
      order.rows(first + begin, end - begin, index);
      for (const ops::GatheredArray& array : arrays) {
        const auto width = static_cast<std::size_t>(array.out.shape().drop_front().count());
        const std::size_t out_bytes = width * size_of(array.out.dtype()),
                          src_bytes = width * size_of(array.src.dtype());
        const auto* const src_rows = static_cast<const std::uint8_t*>(array.src.raw());
        auto* const out_rows = static_cast<char*>(array.out.raw());
        const auto row_at = [&](std::int64_t r) {
          return src_rows + static_cast<std::size_t>(index[std::min(r, end - 1) - begin]) * src_bytes;
        };
        for (std::int64_t r = begin; r < end; ++r) {
          auto* const out = out_rows + static_cast<std::size_t>(r) * out_bytes;
          if (out_bytes == src_bytes) {
            std::memcpy(out, row_at(r), src_bytes);
          } else {
            host_device::with_storage(array.out.dtype(), [&]<class T>(host_device::Type<T>) {
              scale_bytes(reinterpret_cast<T*>(out), row_at(r), row_at(r + kAhead), width, array.factor);
            });
          }
        }
      }
    });
  });
}

}  // namespace giro::cpu
