#include "kernels/internal/few_channels.h"

#include <algorithm>

namespace giro {
namespace {

constexpr std::int64_t kBandBytes = 16 << 10;     // several blocks fit on a multiprocessor
constexpr std::int64_t kMaxBandBytes = 40 << 10;  // if a single row of squares is larger
constexpr std::int64_t kMaxSize = 1 << 30;        // the kernel counts in ints

}  // namespace

FewChannels::FewChannels(const Shape& x, const Shape& w, const Conv2dOptions& options, DType dtype) {
  const Shape y = conv2d_shape(x, w, options);
  if (size_of(dtype) != 2 || options.groups != 1 || w[0] % kFilters != 0 || y.count() == 0 ||
      w.count() / w[0] > kMaxTerms || w.count() == 0 || y.count() / y[0] > kMaxSize || x.count() / x[0] > kMaxSize ||
      y[0] * y[1] > kMaxSize) {
    return;
  }
  // Pixels of x under `squares` squares of y, along an axis.
  const auto covered = [&](std::int64_t squares, std::size_t axis) {
    const int i = static_cast<int>(axis) + 1;
    return (2 * squares - 1) * options.stride[axis] + (w[i] - 1) * options.dilation[axis] + 1;
  };
  const auto squares = [](std::int64_t pixels) { return (pixels + 1) / 2; };
  band_width = covered(squares(y[2]), 1);
  for (band = squares(y[1]); band > 0; --band) {
    band_height = covered(band, 0);
    if (band_bytes(x[3]) <= (band > 1 ? kBandBytes : kMaxBandBytes)) return;
  }
}

}  // namespace giro
