#pragma once

#include <cstdint>
#include <type_traits>

#include <giro/runtime/dtype.h>
#include <giro/runtime/float16.h>
#include <giro/runtime/shape.h>

#include "kernels/cuda/divisor.h"
#include "kernels/few_channels.h"

// What the kernels for convolutions of few channels (FewChannels) keep of x in shared memory, and of the filters in
// registers. A warp computes 32 filters for 8 squares of 2 x 2 pixels at a time, in products of
//
//                              rows      terms                                columns
//   conv2d                     filters   a filter's elements                  pixels: one of each square
//   gradient of the filters    filters   pixels: two of each square           a filter's elements, and 1 for the bias
//
// So the sums of a product of the first kind, rounded in pairs, are laid out as the left operand of the second. Which
// row is which filter is free: a lane gets four neighbours, to load and store them at once.
namespace giro::cuda::few_channels {

constexpr int kWarps = 4, kThreads = 32 * kWarps;
constexpr int kFilters = FewChannels::kFilters;
constexpr int kSquares = 8;
constexpr int kQuad = 4;  // filters of a lane

// Distances within a band are in bytes, others in elements.
struct Geometry {
  int height, row;  // of x
  int y_height, y_width, filters;
  int rows;                         // of squares
  Divisor across;                   // squares in a row
  int band, band_height, band_row;  // rows of squares, rows of x, and elements of such a row
  Divisor bands;                    // of an image
  int units;                        // bands of all images
  int pad_rows, pad_elements;       // before x
  int stride_rows;                  // of x
  int down, right;                  // to the next pixel of y
  int terms, channels, filter_row;  // elements of a filter, of one of its taps, and of a row of taps
  int tap_down, tap_right;          // to the next tap

  Geometry(const Shape& x, const Shape& w, const Conv2dOptions& options, const FewChannels& few, const Shape& y)
      : height(size(x[1])),
        row(size(x[2] * x[3])),
        y_height(size(y[1])),
        y_width(size(y[2])),
        filters(size(y[3])),
        rows(size((y[1] + 1) / 2)),
        across(size((y[2] + 1) / 2)),
        band(size(few.band)),
        band_height(size(few.band_height)),
        band_row(size(few.band_width * x[3])),
        bands((rows + band - 1) / band),
        units(size(x[0]) * bands.value),
        pad_rows(size(options.pad_before[0])),
        pad_elements(size(options.pad_before[1] * x[3])),
        stride_rows(size(options.stride[0])),
        down(2 * stride_rows * band_row),
        right(2 * size(options.stride[1] * x[3])),
        terms(size(w.count() / w[0])),
        channels(size(w[3])),
        filter_row(size(w[2] * w[3])),
        tap_down(2 * size(options.dilation[0]) * band_row),
        tap_right(2 * size(options.dilation[1] * x[3])) {}

  static int size(std::int64_t value) { return static_cast<int>(value); }

  // The distance of the element under a filter's element i from the first.
  __device__ int term(int i) const {
    return i / filter_row * tap_down + i % filter_row / channels * tap_right + i % channels * 2;
  }
};

// Tensor cores multiply elements of 16 bits, two in each register. The first element is in the lower half.
using Pair = std::uint32_t;

__device__ inline Pair pair_of(std::uint16_t first, std::uint16_t second) { return first | Pair{second} << 16; }

// Of T: BFloat16 or Float16.
template <class T>
struct Pairs {
  static constexpr bool kIsBFloat16 = std::is_same_v<T, BFloat16>;
  static constexpr float kRoundsToZero = kIsBFloat16 ? 0x1p-134f : 0x1p-25f;  // the largest float that does

  __device__ static Pair of(float first, float second) {
    Pair pair;
    if constexpr (kIsBFloat16) {
      asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    } else {
      asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    }
    return pair;
  }
  __device__ static float first(Pair pair) {
    T x;
    x.bits = static_cast<std::uint16_t>(pair);
    return x;
  }
  __device__ static float second(Pair pair) { return first(pair >> 16); }

  // sums = a b + c for a warp's a (16, 16), b (16, 8) and c (16, 8). Lane 4 g + q holds rows g and g + 8 of a, c and
  // the sums, and column g of b; of the 16 terms 2 q, 2 q + 1, 2 q + 8 and 2 q + 9; and columns 2 q and 2 q + 1 of c
  // and the sums.
  __device__ static void multiply_add(float (&sums)[4], const Pair (&a)[4], const Pair (&b)[2], const float (&c)[4]) {
#define GIRO_MULTIPLY_ADD(TYPE)                                                                                     \
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." TYPE "." TYPE                                               \
               ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"                           \
               : "=f"(sums[0]), "=f"(sums[1]), "=f"(sums[2]), "=f"(sums[3])                                         \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]), \
                 "f"(c[3]))
    if constexpr (kIsBFloat16) {
      GIRO_MULTIPLY_ADD("bf16");
    } else {
      GIRO_MULTIPLY_ADD("f16");
    }
#undef GIRO_MULTIPLY_ADD
  }
};

extern __shared__ __align__(4) unsigned char shared[];

__device__ inline std::uint16_t& in_band(int at) { return *reinterpret_cast<std::uint16_t*>(shared + at); }

// The rows of squares that a block computes at a time.
struct Band {
  int image, first, squares;  // first: row of squares

  __device__ Band(int unit, const Geometry& g) : image(unit / g.bands), first(unit % g.bands * g.band) {
    squares = min(g.band, g.rows - first) * g.across.value;
  }

  // Copies what the band sees of x to shared memory, with zeros around it.
  __device__ void load(const std::uint16_t* x, const Geometry& g) const {
    const std::uint16_t* const from = x + std::int64_t{image} * g.height * g.row;
    __syncthreads();  // the previous band has been read
    for (int k = static_cast<int>(threadIdx.x) % 32; k < g.band_row; k += 32) {
      const int at = k - g.pad_elements;
#pragma unroll 4  // independent loads
      for (int i = static_cast<int>(threadIdx.x) / 32; i < g.band_height; i += kWarps) {
        const int row = 2 * first * g.stride_rows - g.pad_rows + i;
        const bool exists = row >= 0 && row < g.height && at >= 0 && at < g.row;
        in_band(2 * (i * g.band_row + k)) = exists ? from[std::int64_t{row} * g.row + at] : std::uint16_t{0};
      }
    }
    __syncthreads();
  }
};

// A square of a band. Its pixels are numbered row by row. Those that do not exist have another pixel's place.
// kWhole: all exist.
template <bool kWhole>
struct Square {
  bool exists, has_down = true, has_right = true;
  int number;               // in the band
  int corner, down, right;  // distances in the band: of the first pixel, and from there

  // Beyond the last, a copy of the last.
  __device__ Square(int i, const Band& band, const Geometry& g)
      : exists(i < band.squares), number(min(i, band.squares - 1)), down(g.down), right(g.right) {
    const int below = number / g.across, column = number % g.across;
    corner = 2 * (below * down + column * right);
    if (kWhole) return;
    has_down = 2 * (band.first + below) + 1 < g.y_height;
    has_right = 2 * column + 1 < g.y_width;
    if (!has_down) down = 0;
    if (!has_right) right = 0;
  }

  __device__ bool has(int pixel) const { return exists && (pixel < 2 || has_down) && (pixel % 2 == 0 || has_right); }
  __device__ int at(int pixel) const { return corner + (pixel < 2 ? 0 : down) + (pixel % 2 == 0 ? 0 : right); }
  __device__ std::int64_t in_y(int pixel, const Band& band, const Geometry& g) const {
    const int row = band.first + number / g.across, column = number % g.across;
    const std::int64_t line = std::int64_t{band.image} * g.y_height + 2 * row + pixel / 2;
    return (line * g.y_width + 2 * column + pixel % 2) * g.filters;
  }
  // Where the mean of its pixels is, if all squares are whole.
  __device__ std::int64_t in_means(const Band& band, const Geometry& g) const {
    const std::int64_t row = std::int64_t{band.image} * g.rows + band.first;
    return (row * g.across.value + number) * g.filters;
  }
};

struct Lane {
  int g = static_cast<int>(threadIdx.x) % 32 / 4, q = static_cast<int>(threadIdx.x) % 4;
  // Of its four filters: both rows of the left operand of the first product, then those of the second.
  int filter = static_cast<int>(blockIdx.y) * kFilters + kQuad * g;
};

// A lane's part of the filters and of their bias.
template <class T, int kSteps>
class Filters {
 public:
  // w is null if nothing is to be computed from them.
  __device__ Filters(const std::uint16_t* w, const void* b, DType b_dtype, const Lane& lane, const Geometry& g) {
    if (w == nullptr) return;
#pragma unroll
    for (int i = 0; i < kQuad; ++i) {
      const int filter = lane.filter + i;
      const float bias = b == nullptr            ? 0.0f
                         : b_dtype == DType::f32 ? static_cast<const float*>(b)[filter]
                                                 : static_cast<float>(static_cast<const T*>(b)[filter]);
      bias_[i / 2][i % 2 * 2] = bias_[i / 2][i % 2 * 2 + 1] = bias;
#pragma unroll
      for (int k = 0; k < 2 * kSteps; ++k) {
        const int term = 8 * k + 2 * lane.q;
        const auto element = [&](int i) {
          return i < g.terms ? w[std::int64_t{filter} * g.terms + i] : std::uint16_t{0};
        };
        words_[i / 2][k / 2][i % 2 + k % 2 * 2] = pair_of(element(term), element(term + 1));
      }
    }
#pragma unroll
    for (int k = 0; k < 2 * kSteps; ++k) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int term = 8 * k + 2 * lane.q + i;
        offsets_[k][i] = term < g.terms ? g.term(term) : 0;
        exists_[k] |= term < g.terms ? 0xffffu << (16 * i) : 0;
      }
    }
  }

  // The sums at one pixel of each square: for each of the lane's filters, those of squares 2 q and 2 q + 1.
  // `at`: the pixel of square g.
  __device__ void convolve(float (&z)[kQuad][2], int at) const {
    Pair patch[kSteps][2];
#pragma unroll
    for (int k = 0; k < 2 * kSteps; ++k) {
      patch[k / 2][k % 2] = pair_of(in_band(at + offsets_[k][0]), in_band(at + offsets_[k][1])) & exists_[k];
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sums[4];
      Pairs<T>::multiply_add(sums, words_[half][0], patch[0], bias_[half]);
#pragma unroll
      for (int step = 1; step < kSteps; ++step) Pairs<T>::multiply_add(sums, words_[half][step], patch[step], sums);
#pragma unroll
      for (int i = 0; i < 4; ++i) z[2 * half + i / 2][i % 2] = sums[i];
    }
  }

 private:
  Pair words_[2][kSteps][4];
  float bias_[2][4];
  int offsets_[2 * kSteps][2];
  Pair exists_[2 * kSteps] = {};
};

}  // namespace giro::cuda::few_channels
