#include <giro/kernels/pool.h>

#include <algorithm>
#include <limits>

#include "runtime/throw_error.h"

namespace giro {

Shape pool_shape(const Shape& x, const PoolOptions& options) {
  if (x.rank() != 4) throw_shape("pooling: x is {}, expected (N, H, W, C)", to_string(x));
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  std::array<std::int64_t, 2> out{};
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const std::int64_t size = x[static_cast<int>(axis) + 1], window = options.window[axis];
    const std::int64_t stride = options.stride[axis], before = options.pad_before[axis],
                       after = options.pad_after[axis];
    if (std::min(window, stride) < 1 || std::max(window, stride) > kMost) {
      throw_invalid("pooling: window {} and stride {}, expected 1 to {}", window, stride, kMost);
    }
    if (std::min(before, after) < 0 || std::max(before, after) >= window) {
      throw_invalid("pooling: padding {} and {} of an axis with a window of {}, expected 0 to {}", before, after,
                    window, window - 1);
    }
    if (size < 1 || window > size + before + after) {
      throw_shape("pooling: a window of {} does not fit in x {} with padding {} and {}", window, to_string(x), before,
                  after);
    }
    out[axis] = (size + before + after - window) / stride + 1;
  }
  return {x[0], out[0], out[1], x[3]};
}

bool pool_has_padding(const PoolOptions& options) {
  return options.pad_before != PoolOptions().pad_before || options.pad_after != PoolOptions().pad_after;
}

bool pool_windows_tile(const Shape& x, const PoolOptions& options) {
  return options.window == options.stride && !pool_has_padding(options) && x[1] % options.window[0] == 0 &&
         x[2] % options.window[1] == 0;
}

}  // namespace giro
