#include "kernels/cuda/as_expressions.h"

#include <array>
#include <utility>
#include <vector>

#include "kernels/cuda/expression.h"
#include "kernels/pointwise/term.h"

namespace giro::cuda {
namespace {

using pointwise::Layout;
using pointwise::Term;

// Images that windows tile, as rows of windows: axes (row of windows, row in the window, window, pixel in the window,
// channel).
struct Windows {
  static constexpr std::size_t kAxes = 5;
  std::array<std::int64_t, kAxes> sizes, of_images, of_windows, of_channels;  // and strides

  Windows(const Shape& images, const PoolOptions& options) {
    const std::int64_t width = images[2], channels = images[3], rows = options.window[0], columns = options.window[1];
    const std::int64_t across = width / columns;
    sizes = {images[0] * (images[1] / rows), rows, across, columns, channels};
    of_images = {rows * width * channels, width * channels, columns * channels, channels, 1};
    of_windows = {across * channels, 0, channels, 0, 1};
    of_channels = {0, 0, 0, 0, 1};
  }

  // The axes in another order, of which reductions go over the last ones.
  Shape space(const std::array<int, kAxes>& order) const {
    std::vector<std::int64_t> in_order;
    for (const int axis : order) in_order.push_back(sizes[static_cast<std::size_t>(axis)]);
    return Shape(in_order);
  }
  static Layout layout(const std::array<std::int64_t, kAxes>& strides, const std::array<int, kAxes>& order) {
    Layout layout;
    for (std::size_t i = 0; i < kAxes; ++i) layout.strides[i] = strides[static_cast<std::size_t>(order[i])];
    return layout;
  }
};

}  // namespace

pointwise::Expression as_expression(const ops::ActivationAvgPool& op) {
  const Windows windows(op.z.shape(), op.options);
  constexpr std::array<int, Windows::kAxes> kOrder{0, 2, 4, 1, 3};
  pointwise::Builder code(windows.space(kOrder), 2);
  Term value(code, code.read(op.z, Windows::layout(windows.of_images, kOrder)));
  if (op.b) value = value + Term(code, code.read(op.b, Windows::layout(windows.of_channels, kOrder)));
  if (op.has_relu) value = relu(value);
  const Term mean = value.cast(DType::f32).sum() / static_cast<double>(windows.sizes[1] * windows.sizes[3]);
  mean.cast(op.y.dtype()).write(op.y, Windows::layout(windows.of_windows, kOrder));
  return std::move(code).take();
}

pointwise::Expression as_expression(const ops::AvgPoolActivationBackward& op) {
  const Windows windows(op.dz.shape(), op.options);
  const bool sums = static_cast<bool>(op.db);
  const std::array<int, Windows::kAxes> order = sums ? std::array{4, 0, 1, 2, 3} : std::array{0, 1, 2, 3, 4};
  pointwise::Builder code(windows.space(order), sums ? 4 : 0);
  const auto read = [&](const Tensor& tensor, const std::array<std::int64_t, Windows::kAxes>& strides) {
    return Term(code, code.read(tensor, Windows::layout(strides, order)));
  };
  const float factor = 1.0f / static_cast<float>(windows.sizes[1] * windows.sizes[3]);
  const Term share = read(op.dy, windows.of_windows).cast(DType::f32) * static_cast<double>(factor);
  Term dz = share.cast(op.dz.dtype());
  if (op.has_relu) {
    Term input = read(op.x, windows.of_images);
    if (op.b) input = input + read(op.b, windows.of_channels);
    dz = where(0 < input, dz, 0);
  }
  dz.write(op.dz, Windows::layout(windows.of_images, order));
  if (sums) dz.cast(DType::f32).sum().cast(op.db.dtype()).write(op.db, Windows::layout(windows.of_channels, order));
  return std::move(code).take();
}

pointwise::Expression as_expression(const ops::SumRows& op) {
  const std::int64_t rows = op.x.shape()[0], columns = op.x.shape()[1];
  pointwise::Builder code({columns, rows}, 1);
  const Term x(code, code.read(op.x, Layout{.strides = {1, columns}}));
  x.cast(DType::f32).sum().cast(op.out.dtype()).write(op.out, Layout{.strides = {1}});
  return std::move(code).take();
}

void run(const ops::ActivationAvgPool& op, const Stream& stream) { cuda::run(as_expression(op), stream); }
void run(const ops::AvgPoolActivationBackward& op, const Stream& stream) { cuda::run(as_expression(op), stream); }
void run(const ops::SumRows& op, const Stream& stream) { cuda::run(as_expression(op), stream); }

}  // namespace giro::cuda
