#include "kernels/functors/cumulative.h"

#include "kernels/cpu/for_each.h"
#include "kernels/internal/backends.h"

namespace giro::cpu {

void cumulative(const Tensor& y, const Tensor& x, Cumulative of, bool reversed, const Stream& stream) {
  if (x.count() == 0) return;
  functors::with_cumulative(x.dtype(), of, [&]<class T, class Op>(functors::Type<T>, Op op) {
    submit(stream, [=, y = y.data<T>(), x = x.data<T>(), rows = x.shape()[0], length = x.shape()[1]] {
      const std::int64_t step = reversed ? -1 : 1, first = reversed ? length - 1 : 0;
      for_each_block(rows, 1, rows * length, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t r = begin; r < end; ++r) {
          auto total = static_cast<functors::Wide<T>>(Op::kNeutral);
          for (std::int64_t i = 0, at = r * length + first; i < length; ++i, at += step) {
            total = op(total, functors::widened(x[at]));
            y[at] = functors::narrowed<T>(total);
          }
        }
      });
    });
  });
}

}  // namespace giro::cpu
