#pragma once

#include <array>
#include <cstdint>

#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

namespace giro {

struct PoolOptions {
  std::array<std::int64_t, 2> window{2, 2};  // height, width
  std::array<std::int64_t, 2> stride{2, 2};
  std::array<std::int64_t, 2> pad_before{0, 0};  // top, left: less than the window, so that each window has pixels
  std::array<std::int64_t, 2> pad_after{0, 0};   // bottom, right
  // An average counts padding as zeros. Otherwise it is that of the window's pixels alone. A maximum never counts it.
  bool count_include_pad = true;
  bool operator==(const PoolOptions&) const = default;
};

// The shape of y: rows and columns that do not fill a whole window are left out.
// Errors: shape_mismatch, invalid_argument.
Shape pool_shape(const Shape& x, const PoolOptions& options);
bool pool_has_padding(const PoolOptions& options);
// Whether each element of x (N, H, W, C) is in exactly one window, and the windows have nothing else.
bool pool_windows_tile(const Shape& x, const PoolOptions& options);

// x (N, H, W, C), y (N, OH, OW, C), all of one dtype, f32, bf16 or f16, computed in f32; outputs alias no input.
// Errors: shape_mismatch, dtype_mismatch, device_mismatch.
void avg_pool(const Tensor& y, const Tensor& x, const PoolOptions& options, const Stream& stream);
void avg_pool_backward(const Tensor& dx, const Tensor& dy, const PoolOptions& options, const Stream& stream);

// A NaN counts as larger than every number.
void max_pool(const Tensor& y, const Tensor& x, const PoolOptions& options, const Stream& stream);
// If several values of a window are the largest, the first in row-major order gets the gradient.
void max_pool_backward(const Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& y, const PoolOptions& options,
                       const Stream& stream);

}  // namespace giro
