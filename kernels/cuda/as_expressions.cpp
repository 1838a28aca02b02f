#include "kernels/cuda/as_expressions.h"

#include <array>
#include <limits>
#include <utility>

#include "kernels/expr/term.h"
#include "kernels/publish_op.h"

namespace giro::cuda {
namespace {

using expr::Combiner;
using expr::Layout;
using expr::Term;

// Images as windows: axes (image, row of windows, row in the window, window, pixel in the window, channel), in the
// given order; reductions are over the last ones. Pixels outside all windows are left out; pixels in several windows
// occur several times.
struct Windows {
  static constexpr std::size_t kAxes = 6;
  using Axes = std::array<std::int64_t, kAxes>;
  using Order = std::array<std::size_t, kAxes>;
  static constexpr Order kByWindow{0, 1, 3, 5, 2, 4};  // for reductions over each window

  double area;
  Shape space;
  Layout of_images, of_windows, of_channels, of_window;

  Windows(const Shape& images, const PoolOptions& options, const Order& order = kByWindow) {
    const Shape windows = pool_shape(images, options);
    const std::int64_t width = images[2], across = windows[2], channels = images[3];
    const auto [rows, columns] = options.window;
    const auto [down, right] = options.stride;
    const auto in_order = [&](const Axes& axes) {
      Axes result;
      for (std::size_t i = 0; i < kAxes; ++i) result[i] = axes[order[i]];
      return result;
    };
    area = static_cast<double>(rows * columns);
    space = Shape(in_order({images[0], windows[1], rows, across, columns, channels}));
    of_images.strides = in_order(
        {images[1] * width * channels, down * width * channels, width * channels, right * channels, channels, 1});
    of_windows.strides = in_order({windows[1] * across * channels, across * channels, 0, channels, 0, 1});
    of_channels.strides = in_order({0, 0, 0, 0, 0, 1});
    of_window.strides = in_order({0, 0, columns, 0, 1, 0});
  }
};

}  // namespace

bool is_expression(const ops::AvgPool& op) { return !pool_has_padding(op.options); }
bool is_expression(const ops::MaxPool& op) { return !pool_has_padding(op.options); }
bool is_expression(const ops::AvgPoolBackward& op) { return pool_windows_tile(op.dx.shape(), op.options); }
bool is_expression(const ops::MaxPoolBackward& op) { return pool_windows_tile(op.dx.shape(), op.options); }

expr::Expression as_expression(const ops::AvgPool& op) {
  const Windows windows(op.x.shape(), op.options);
  expr::Builder code(windows.space, 2);
  Term value = code.read(op.x, windows.of_images);
  if (op.has_relu) value = relu(value);
  const Term mean = value.cast(DType::f32).sum() / windows.area;
  mean.cast(op.y.dtype()).write(op.y, windows.of_windows);
  return std::move(code).take();
}

expr::Expression as_expression(const ops::MaxPool& op) {
  const Windows windows(op.x.shape(), op.options);
  expr::Builder code(windows.space, 2);
  const Term x = code.read(op.x, windows.of_images);
  x.reduce(Combiner::max, op.y.dtype()).write(op.y, windows.of_windows);
  return std::move(code).take();
}

expr::Expression as_expression(const ops::MaxPoolBackward& op) {
  const Windows windows(op.x.shape(), op.options);
  expr::Builder code(windows.space, 2);
  const Term x = code.read(op.x, windows.of_images);
  const Term dy = code.read(op.dy, windows.of_windows);
  const Term place = code.place(windows.of_window);
  const Term first = x.reduce(Combiner::argmax, DType::i64);
  where(place == first, dy, 0).write(op.dx, windows.of_images);
  return std::move(code).take();
}

expr::Expression as_expression(const ops::AvgPoolBackward& op) {
  const bool sums = static_cast<bool>(op.db);
  const Windows windows(op.dx.shape(), op.options,
                        sums ? Windows::Order{5, 0, 1, 2, 3, 4} : Windows::Order{0, 1, 2, 3, 4, 5});
  expr::Builder code(windows.space, sums ? 5 : 0);
  const Term dy = code.read(op.dy, windows.of_windows);
  const float factor = 1.0f / static_cast<float>(windows.area);
  const Term share = dy.cast(DType::f32) * static_cast<double>(factor);
  Term dx = share.cast(op.dx.dtype());
  if (op.has_relu) dx = where(0 < code.read(op.x, windows.of_images), dx, 0);
  dx.write(op.dx, windows.of_images);
  if (sums) dx.cast(DType::f32).sum().cast(op.db.dtype()).write(op.db, windows.of_channels);
  return std::move(code).take();
}

expr::Expression as_expression(const ops::SumRows& op) {
  const std::int64_t rows = op.x.shape()[0], columns = op.x.shape()[1];
  expr::Builder code({columns, rows}, 1);
  const Term x = code.read(op.x, Layout{.strides = {1, columns}});
  x.cast(DType::f32).sum().cast(op.out.dtype()).write(op.out, Layout{.strides = {1}});
  return std::move(code).take();
}

expr::Expression cross_entropy_rows(const Tensor& losses, const Tensor& dlogits, const Tensor& logits,
                                    const Tensor& labels, double factor) {
  const Shape& space = logits.shape();
  const Layout whole = expr::broadcast_layout(space, space), of_rows{.strides = {1}};
  expr::Builder code(space, 1);
  const Term logit = code.read(logits, whole).cast(DType::f32);
  const Term label = code.read(labels, of_rows).cast(DType::i64);
  const Term is_label = code.place(Layout{.strides = {0, 1}}) == label;
  const Term nan = code.constant(DType::f32, std::numeric_limits<double>::quiet_NaN());
  const auto if_known = [&](const Term& value) { return where(label < 0, nan, where(label < space[1], value, nan)); };

  const Term largest = logit.reduce(Combiner::max, DType::f32);
  const Term exponential = exp(logit - largest), total = exponential.sum();
  const Term at_label = where(is_label, logit, 0).sum();
  if_known(log(total) + (largest - at_label)).write(losses, of_rows);
  if (dlogits) {
    const Term slope = exponential / total - is_label.cast(DType::f32);
    if_known(slope * factor).cast(dlogits.dtype()).write(dlogits, whole);
  }
  return std::move(code).take();
}

void run(const ops::SumRows& op, const Stream& stream) { cuda::run(as_expression(op), stream); }

namespace {

// Calls f with the expression of an op that is one of Ops.
template <class... Ops, class F>
void with_expression_of(const detail::HeldOp& held, const F& f) {
  const auto try_one = [&](const auto* op) {
    if (op != nullptr && is_expression(*op)) f(as_expression(*op), nullptr);
  };
  (try_one(detail::op_of<Ops>(held)), ...);
}

}  // namespace

void with_expression(const detail::HeldOp& op,
                     detail::FunctionRef<void(const expr::Expression&, const ops::Publish* tail)> f) {
  if (const auto* const expression = detail::op_of<expr::Expression>(op)) return f(*expression, nullptr);
  if (const auto* const both = detail::op_of<ops::RunAndPublish>(op)) return f(both->expression, &both->row);
  with_expression_of<ops::Dense, ops::DenseBackward, ops::AvgPool, ops::AvgPoolBackward, ops::MaxPool,
                     ops::MaxPoolBackward>(op, f);
}

}  // namespace giro::cuda
