#include "kernels/cuda/pad.h"

#include "kernels/cuda/for_each.cuh"
#include "kernels/functors/storage.h"

namespace giro::cuda {
namespace {

template <class T>
struct Pad {
  T* padded;
  const T* x;
  std::int64_t padded_height, padded_width, height, width, channels, top, left;

  GIRO_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t c = i % channels, column = i / channels % padded_width - left;
    const std::int64_t row = i / (channels * padded_width) % padded_height - top;
    const std::int64_t n = i / (channels * padded_width * padded_height);
    const bool inside = row >= 0 && row < height && column >= 0 && column < width;
    padded[i] = inside ? x[((n * height + row) * width + column) * channels + c] : T{};
  }
};

template <class T>
struct Crop {
  T* x;
  const T* padded;
  std::int64_t padded_height, padded_width, height, width, channels, top, left;

  GIRO_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t c = i % channels, column = i / channels % width + left;
    const std::int64_t row = i / (channels * width) % height + top, n = i / (channels * width * height);
    x[i] = padded[((n * padded_height + row) * padded_width + column) * channels + c];
  }
};

}  // namespace

void pad(const Tensor& padded, const Tensor& x, std::array<std::int64_t, 2> offset, const Stream& stream) {
  functors::with_storage(x.dtype(), [&]<class T>(functors::Type<T>) {
    ForEach{stream}(padded.count(), Pad<T>{padded.data<T>(), x.data<T>(), padded.shape()[1], padded.shape()[2],
                                           x.shape()[1], x.shape()[2], x.shape()[3], offset[0], offset[1]});
  });
}

void crop(const Tensor& x, const Tensor& padded, std::array<std::int64_t, 2> offset, const Stream& stream) {
  functors::with_storage(x.dtype(), [&]<class T>(functors::Type<T>) {
    ForEach{stream}(x.count(), Crop<T>{x.data<T>(), padded.data<T>(), padded.shape()[1], padded.shape()[2],
                                       x.shape()[1], x.shape()[2], x.shape()[3], offset[0], offset[1]});
  });
}

}  // namespace giro::cuda
