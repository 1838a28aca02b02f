#include <giro/kernels/pool.h>

#include <fmt/format.h>

#include <giro/runtime/error.h>

#include "kernels/internal/backends.h"
#include "kernels/internal/checks.h"
#include "kernels/internal/dispatch.h"

namespace giro {

Shape pool_shape(const Shape& x, const PoolOptions& options) {
  if (x.rank() != 4) {
    throw Error(ErrorCode::shape_mismatch, fmt::format("pooling: x is {}, expected (N, H, W, C)", to_string(x)));
  }
  std::array<std::int64_t, 2> out{};
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const std::int64_t size = x[static_cast<int>(axis) + 1];
    if (options.window[axis] < 1 || options.stride[axis] < 1) {
      throw Error(ErrorCode::invalid_argument, fmt::format("pooling: window {} and stride {}, expected at least 1",
                                                           options.window[axis], options.stride[axis]));
    }
    if (options.window[axis] > size) {
      throw Error(ErrorCode::shape_mismatch,
                  fmt::format("pooling: a window of {} does not fit in x {}", options.window[axis], to_string(x)));
    }
    out[axis] = (size - options.window[axis]) / options.stride[axis] + 1;
  }
  return {x[0], out[0], out[1], x[3]};
}

bool pool_windows_tile(const Shape& x, const PoolOptions& options) {
  return options.window == options.stride && x[1] % options.window[0] == 0 && x[2] % options.window[1] == 0;
}

namespace {

void check(std::string_view op, const checks::Argument& x, const checks::Argument& y, const PoolOptions& options,
           const Stream& stream) {
  checks::on_device(op, {x, y}, stream);
  checks::is_storage(op, x);
  checks::same_dtype(op, y, x);
  checks::has_shape(op, y, pool_shape(x.tensor.shape(), options));
}

void check_tiles(std::string_view op, const Tensor& x, const PoolOptions& options) {
  if (!pool_windows_tile(x.shape(), options)) {
    throw Error(ErrorCode::unsupported,
                fmt::format("{}: windows of {}, {} at strides {}, {} do not tile x {}", op, options.window[0],
                            options.window[1], options.stride[0], options.stride[1], to_string(x)));
  }
}

void check_activation(std::string_view op, Activation f) {
  if (f == Activation::none || f == Activation::relu) return;
  throw Error(ErrorCode::unsupported, fmt::format("{}: only relu is fused", op));
}

void check_channels(std::string_view op, const checks::Argument& of_channels, const Tensor& x, const Stream& stream) {
  if (!of_channels.tensor) return;
  checks::on_device(op, {of_channels}, stream);
  checks::has_shape(op, of_channels, {x.shape()[3]});
}

}  // namespace

void avg_pool(const Tensor& y, const Tensor& x, const PoolOptions& options, const Stream& stream) {
  check("avg_pool", {"x", x}, {"y", y}, options, stream);
  GIRO_QUEUE(stream, avg_pool, (y, x, options), {y}, {x}, elements(x));
}

void activation_avg_pool(const Tensor& y, const Tensor& z, const Tensor& b, Activation f, const PoolOptions& options,
                         const Stream& stream) {
  constexpr std::string_view op = "activation_avg_pool";
  check(op, {"z", z}, {"y", y}, options, stream);
  check_activation(op, f);
  check_tiles(op, z, options);
  if (b) checks::same_dtype(op, {"b", b}, {"z", z});
  check_channels(op, {"b", b}, z, stream);
  GIRO_QUEUE(stream, activation_avg_pool, (y, z, b, f, options), {y}, {z, b}, (b ? 3 : 2) * elements(z));
}

void avg_pool_backward(const Tensor& dx, const Tensor& dy, const PoolOptions& options, const Stream& stream) {
  check("avg_pool_backward", {"dx", dx}, {"dy", dy}, options, stream);
  GIRO_QUEUE(stream, avg_pool_backward, (dx, dy, options), {dx}, {dy}, elements(dx));
}

void avg_pool_activation_backward(const Tensor& dz, const Tensor& db, const Tensor& dy, const Tensor& x,
                                  const Tensor& b, Activation f, const PoolOptions& options, const Stream& stream) {
  constexpr std::string_view op = "avg_pool_activation_backward";
  check(op, {"x", x}, {"dy", dy}, options, stream);
  check(op, {"dz", dz}, {"dy", dy}, options, stream);
  checks::same_shape(op, {"dz", dz}, {"x", x});
  if (db) checks::is_f32_or_as(op, {"db", db}, {"x", x});
  if (b) checks::same_dtype(op, {"b", b}, {"x", x});
  check_channels(op, {"db", db}, x, stream);
  check_channels(op, {"b", b}, x, stream);
  check_activation(op, f);
  check_tiles(op, x, options);
  GIRO_QUEUE(stream, avg_pool_activation_backward, (dz, db, dy, x, b, f, options), {dz, db}, {dy, x, b},
             (2 + (b ? 1 : 0) + (db ? 1 : 0)) * elements(dz));
}

void max_pool(const Tensor& y, const Tensor& x, const PoolOptions& options, const Stream& stream) {
  check("max_pool", {"x", x}, {"y", y}, options, stream);
  GIRO_QUEUE(stream, max_pool, (y, x, options), {y}, {x}, elements(x));
}

void max_pool_backward(const Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& y, const PoolOptions& options,
                       const Stream& stream) {
  checks::same_shape("max_pool_backward", {"dx", dx}, {"x", x});
  check("max_pool_backward", {"x", x}, {"y", y}, options, stream);
  check("max_pool_backward", {"dx", dx}, {"dy", dy}, options, stream);
  GIRO_QUEUE(stream, max_pool_backward, (dx, dy, x, y, options), {dx}, {dy, x, y}, elements(dx));
}

}  // namespace giro
