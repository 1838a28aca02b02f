#pragma once

#include <array>
#include <cstdint>

#include <giro/runtime/shape.h>

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

}  // namespace giro
