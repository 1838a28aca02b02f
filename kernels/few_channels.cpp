#include "kernels/few_channels.h"

#include <algorithm>

namespace giro {
namespace {

constexpr std::int64_t kBandBytes = 16 << 10;     // several blocks fit on a multiprocessor
constexpr std::int64_t kMaxBandBytes = 40 << 10;  // for a single row of squares
constexpr std::int64_t kLeastSquares = 32;        // in a band; the block's warps take 8 each
constexpr std::int64_t kMaxSize = 1 << 24;        // of an axis
constexpr std::int64_t kMaxDistance = 1 << 12;    // along an axis
constexpr std::int64_t kMaxElements = 1 << 30;    // the kernels count those of an image in ints

bool is_small(const Shape& shape) {
  return std::all_of(shape.begin(), shape.end(), [](std::int64_t size) { return size > 0 && size <= kMaxSize; }) &&
         shape.count() / shape[0] <= kMaxElements;
}

bool is_small(const Conv2dOptions& options) {
  for (const auto& distances : {options.stride, options.dilation, options.pad_before}) {
    if (std::max(distances[0], distances[1]) > kMaxDistance) return false;
  }
  return true;
}

}  // namespace

FewChannels::FewChannels(const Shape& x, const Shape& w, const Conv2dOptions& options, DType dtype) {
  const Shape y = conv2d_shape(x, w, options);
  const auto quotient = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  if (size_of(dtype) != 2 || options.groups != 1 || !is_small(x) || !is_small(w) || !is_small(y) ||
      !is_small(options) || w[0] % kFilters != 0 || w[0] / kFilters > 65535 || w.count() / w[0] > kMaxTerms) {
    return;
  }
  if (y[1] == 1) return;  // half of each square would not exist
  const std::int64_t rows = quotient(y[1], 2), across = quotient(y[2], 2);
  // Pixels of x under `squares` squares of y along an axis.
  const auto covered = [&](std::int64_t squares, std::size_t axis) {
    const int i = static_cast<int>(axis) + 1;
    return (2 * squares - 1) * options.stride[axis] + (w[i] - 1) * options.dilation[axis] + 1;
  };
  band_width = covered(across, 1);
  const std::int64_t row_bytes = 2 * band_width * x[3], each = 2 * options.stride[0];
  if (covered(1, 0) * row_bytes > kMaxBandBytes) return;
  const std::int64_t most = std::max<std::int64_t>(1, (kBandBytes / row_bytes - covered(0, 0)) / each);
  // Four or, with more registers, three blocks on each multiprocessor of a large GPU.
  const std::int64_t all_blocks = std::max<std::int64_t>(1, (w.count() / w[0] < 16 ? 528 : 396) / (w[0] / kFilters));
  const std::int64_t wanted = std::max(quotient(rows * x[0], all_blocks), quotient(kLeastSquares, across));
  band = std::min({most, wanted, rows});
  band_height = covered(band, 0);
  const std::int64_t units = x[0] * quotient(rows, band);
  if (units > kMaxElements) band = 0;
  blocks = std::min(units, all_blocks);
}

}  // namespace giro
