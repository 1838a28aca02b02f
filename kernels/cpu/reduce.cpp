#include "kernels/cpu/for_each.h"
#include "kernels/host_device/storage.h"
#include "kernels/ops.h"

namespace giro::cpu {

void run(const ops::SumRows& op, const Stream& stream) {
  host_device::with_storage(op.x.dtype(), [&]<class T>(host_device::Type<T>) {
    submit(stream,
           [out = host_device::Output(op.out), x = op.x.data<T>(), rows = op.x.shape()[0], columns = op.x.shape()[1]] {
             constexpr std::int64_t kColumns = 64;
             for_each_block(columns, kColumns, rows * columns, [&](std::int64_t begin, std::int64_t end) {
               double total[kColumns] = {};
               const std::int64_t width = end - begin;
               for (std::int64_t r = 0; r < rows; ++r) {
                 const T* row = x + r * columns + begin;
#pragma omp simd
                 for (std::int64_t c = 0; c < width; ++c) total[c] += static_cast<double>(static_cast<float>(row[c]));
               }
               for (std::int64_t c = 0; c < width; ++c) out.store(begin + c, static_cast<float>(total[c]));
             });
           });
  });
}

}  // namespace giro::cpu
