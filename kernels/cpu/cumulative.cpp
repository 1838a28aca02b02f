#include "kernels/host_device/cumulative_functions.h"

#include "kernels/cpu/for_each.h"
#include "kernels/ops.h"

namespace giro::cpu {

void run(const ops::Cumulative& op, const Stream& stream) {
  if (op.x.count() == 0) return;
  host_device::with_cumulative(op.x.dtype(), op.of, [&]<class T, class Join>(host_device::Type<T>, Join join) {
    submit(stream, [join, y = op.y.data<T>(), x = op.x.data<T>(), rows = op.x.shape()[0], length = op.x.shape()[1],
                    reversed = op.reversed] {
      const std::int64_t step = reversed ? -1 : 1, first = reversed ? length - 1 : 0;
      for_each_block(rows, 1, rows * length, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t r = begin; r < end; ++r) {
          using Wide = host_device::Wide<T>;
          auto total = static_cast<Wide>(Join::kNeutral);
          for (std::int64_t i = 0, at = r * length + first; i < length; ++i, at += step) {
            total = join(total, static_cast<Wide>(x[at]));
            y[at] = host_device::narrowed<T>(total);
          }
        }
      });
    });
  });
}

}  // namespace giro::cpu
