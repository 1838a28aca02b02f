#include "kernels/cuda/pad.h"

#include <cstddef>
#include <utility>

#include "kernels/pointwise/build.h"

namespace giro::cuda {
namespace {

using pointwise::Layout;

// The layout of `images`, read from row and column `offset` on.
Layout shifted(const Shape& images, std::array<std::int64_t, 2> offset) {
  Layout layout = pointwise::broadcast_layout(images, images);
  for (std::size_t axis : {1, 2}) layout.offset += offset[axis - 1] * layout.strides[axis];
  return layout;
}

void copy_of_space(const char* op, const Tensor& out, const Tensor& in, const Layout& read, const Stream& stream) {
  pointwise::Builder code(out.shape());
  code.write(code.read(in, read), out, pointwise::broadcast_layout(out.shape(), out.shape()));
  queue(op, std::move(code).take(), stream);
}

}  // namespace

void pad(const Tensor& padded, const Tensor& x, std::array<std::int64_t, 2> offset, const Stream& stream) {
  Layout read = shifted(x.shape(), {-offset[0], -offset[1]});
  for (std::size_t axis : {1, 2}) {
    const std::int64_t before = offset[axis - 1];
    read.bounds[axis] = {before, before + x.shape().begin()[axis]};
  }
  copy_of_space("pad", padded, x, read, stream);
}

void crop(const Tensor& x, const Tensor& padded, std::array<std::int64_t, 2> offset, const Stream& stream) {
  copy_of_space("crop", x, padded, shifted(padded.shape(), offset), stream);
}

}  // namespace giro::cuda
