#pragma once

#include <cstdint>

#include <giro/kernels/conv2d.h>
#include <giro/runtime/dtype.h>

namespace giro {

// A convolution of few channels, such as the first of a model, moves far more memory than it computes. For 16 bits a
// GPU has a kernel for it that libraries lack: one that fuses with an average pooling, without storing what is pooled.
// It takes pixels in squares of 2 x 2, a band of rows of squares at a time, which it reads from shared memory.
struct FewChannels {
  static constexpr std::int64_t kFilters = 32;   // computed by a block
  static constexpr std::int64_t kMaxTerms = 31;  // of a filter

  std::int64_t band = 0;                         // rows of squares; 0: the kernel does not take this convolution
  std::int64_t band_height = 0, band_width = 0;  // in pixels of x

  // For y = conv2d(x, w), none of them empty.
  FewChannels(const Shape& x, const Shape& w, const Conv2dOptions& options, DType dtype);

  explicit operator bool() const { return band > 0; }
  std::int64_t band_bytes(std::int64_t channels) const { return 2 * band_height * band_width * channels; }
};

}  // namespace giro
