#include "kernels/cuda/few_channels_conv2d.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kernels/cuda/block_count.h"
#include "kernels/cuda/divisor.h"
#include "kernels/functors/pool.h"
#include "kernels/functors/storage.h"
#include "kernels/internal/few_channels.h"
#include "kernels/internal/ops.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/stream.h"

// A warp computes 32 filters for 8 squares of 2 x 2 pixels at a time, by mma.m16n8k16. Lane 4 g + q holds, of each
// product:
//
//   left operand    rows g and g + 8, terms 2 q, 2 q + 1, 2 q + 8 and 2 q + 9
//   right operand   column g, the same terms
//   sums            rows g and g + 8, columns 2 q and 2 q + 1
//
//                              rows      terms                                columns
//   conv2d                     filters   a filter's elements                  pixels: one of each square
//   gradient of the filters    filters   pixels: two of each square           a filter's elements, and 1 for the bias
//
// So the sums of a product of the first kind, rounded in pairs, are laid out as the left operand of the second. Which
// row is which filter is free: a lane gets four neighbours, to load and store them at once.
namespace giro::cuda {
namespace {

constexpr int kWarps = 4, kThreads = 32 * kWarps;
constexpr int kFilters = FewChannels::kFilters;
constexpr int kSquares = 8;
constexpr int kQuad = 4;  // filters of a lane

// Two elements in one register, the first in the lower half.
using Pair = std::uint32_t;

__device__ Pair pair_of(std::uint16_t first, std::uint16_t second) { return first | Pair{second} << 16; }

template <class T>
struct Pairs;
template <>
struct Pairs<BFloat16> {
  static constexpr float kRoundsToZero = 0x1p-134f;  // the largest float that does

  __device__ static Pair of(float first, float second) {
    Pair pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    return pair;
  }
  __device__ static float first(Pair pair) { return __uint_as_float(pair << 16); }
  __device__ static float second(Pair pair) { return __uint_as_float(pair & 0xffff0000u); }
  // a b + c
  __device__ static void multiply_add(float (&sums)[4], const Pair (&a)[4], const Pair (&b)[2], const float (&c)[4]) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%10, %11, %12, %13};"
        : "=f"(sums[0]), "=f"(sums[1]), "=f"(sums[2]), "=f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
  }
};
template <>
struct Pairs<Float16> {
  static constexpr float kRoundsToZero = 0x1p-25f;

  __device__ static Pair of(float first, float second) {
    Pair pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    return pair;
  }
  __device__ static float value(std::uint16_t half) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
    return value;
  }
  __device__ static float first(Pair pair) { return value(static_cast<std::uint16_t>(pair)); }
  __device__ static float second(Pair pair) { return value(static_cast<std::uint16_t>(pair >> 16)); }
  __device__ static void multiply_add(float (&sums)[4], const Pair (&a)[4], const Pair (&b)[2], const float (&c)[4]) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%10, %11, %12, %13};"
        : "=f"(sums[0]), "=f"(sums[1]), "=f"(sums[2]), "=f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
  }
};

// Four neighbouring filters' elements of a pixel.
using Quad = uint2;

// A pair of pixels for each of four filters, from and to the quads of both pixels.
__device__ Pair firsts(Pair a, Pair b) { return __byte_perm(a, b, 0x5410); }
__device__ Pair seconds(Pair a, Pair b) { return __byte_perm(a, b, 0x7632); }
__device__ Quad first_of(const Pair (&pairs)[kQuad]) {
  return {firsts(pairs[0], pairs[1]), firsts(pairs[2], pairs[3])};
}
__device__ Quad second_of(const Pair (&pairs)[kQuad]) {
  return {seconds(pairs[0], pairs[1]), seconds(pairs[2], pairs[3])};
}
__device__ void join(Pair (&pairs)[kQuad], Quad first, Quad second) {
  pairs[0] = firsts(first.x, second.x);
  pairs[1] = seconds(first.x, second.x);
  pairs[2] = firsts(first.y, second.y);
  pairs[3] = seconds(first.y, second.y);
}

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

extern __shared__ __align__(4) unsigned char shared[];

__device__ std::uint16_t& in_band(int at) { return *reinterpret_cast<std::uint16_t*>(shared + at); }

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

// functors::Relu, but for the sign of a zero.
__device__ float relu(float x) {
  float y;
  asm("max.NaN.f32 %0, %1, 0f00000000;" : "=f"(y) : "f"(x));
  return y;
}

// kPool: y is the mean of each square, after a relu.
template <class T, int kSteps, bool kPool>
__global__ void __launch_bounds__(kThreads, 1)
    few_channels_kernel(std::uint16_t* y, const std::uint16_t* x, const std::uint16_t* w, const void* b, DType b_dtype,
                        bool has_relu, Geometry g) {
  const Lane lane;
  const Filters<T, kSteps> filters(w, b, b_dtype, lane, g);
  const auto quad_at = [&](std::int64_t at) -> Quad& { return *reinterpret_cast<Quad*>(y + at + lane.filter); };

  for (int unit = static_cast<int>(blockIdx.x); unit < g.units; unit += static_cast<int>(gridDim.x)) {
    const Band band(unit, g);
    band.load(x, g);
    for (int i = static_cast<int>(threadIdx.x) / 32 * kSquares; i < band.squares; i += kWarps * kSquares) {
      const Square<kPool> seen(i + lane.g, band, g), first(i + 2 * lane.q, band, g),
          second(i + 2 * lane.q + 1, band, g);
      float sums[kQuad][2] = {};
#pragma unroll
      for (int pixel = 0; pixel < 4; ++pixel) {
        float z[kQuad][2];
        filters.convolve(z, seen.at(pixel));
        Pair stored[kQuad];
#pragma unroll
        for (int k = 0; k < kQuad; ++k) {
          stored[k] = Pairs<T>::of(z[k][0], z[k][1]);
          const float values[2] = {Pairs<T>::first(stored[k]), Pairs<T>::second(stored[k])};
          if (kPool) {
            sums[k][0] += relu(values[0]);
            sums[k][1] += relu(values[1]);
          } else if (has_relu) {
            stored[k] = Pairs<T>::of(functors::Relu::value(values[0]), functors::Relu::value(values[1]));
          }
        }
        if constexpr (!kPool) {
          if (first.has(pixel)) quad_at(first.in_y(pixel, band, g)) = first_of(stored);
          if (second.has(pixel)) quad_at(second.in_y(pixel, band, g)) = second_of(stored);
        }
      }
      if constexpr (kPool) {
        Pair means[kQuad];
#pragma unroll
        for (int k = 0; k < kQuad; ++k) means[k] = Pairs<T>::of(0.25f * sums[k][0], 0.25f * sums[k][1]);
        if (first.exists) quad_at(first.in_means(band, g)) = first_of(means);
        if (second.exists) quad_at(second.in_means(band, g)) = second_of(means);
      }
    }
  }
}

// The gradients of each block's units: parts (gridDim.x, O, terms + 1), of which the last is the bias's. kPool: dz is
// the gradient of the means, and w and b are given to compute the relu's input again.
template <class T, int kSteps, bool kPool>
__global__ void __launch_bounds__(kThreads, 1)
    few_channels_backward_filter_kernel(float* parts, const std::uint16_t* dz, const std::uint16_t* x,
                                        const std::uint16_t* w, const void* b, DType b_dtype, Geometry g) {
  constexpr int kTerms = 16 * kSteps, kTiles = 2 * kSteps;
  const Lane lane;
  const Filters<T, kSteps> filters(kPool ? w : nullptr, b, b_dtype, lane, g);
  const auto quad_at = [&](bool exists, std::int64_t at) {
    return exists ? *reinterpret_cast<const Quad*>(dz + at + lane.filter) : Quad{0, 0};
  };
  int offsets[kTiles];
  Pair exists[kTiles], ones[kTiles];
#pragma unroll
  for (int j = 0; j < kTiles; ++j) {
    const int term = 8 * j + lane.g;
    offsets[j] = term < g.terms ? g.term(term) : 0;
    exists[j] = term < g.terms ? ~Pair{0} : 0;
    ones[j] = term == g.terms ? Pairs<T>::of(1.0f, 1.0f) : 0;
  }

  float sums[2][kTiles][4] = {};
  for (int unit = static_cast<int>(blockIdx.x); unit < g.units; unit += static_cast<int>(gridDim.x)) {
    const Band band(unit, g);
    band.load(x, g);
    for (int i = static_cast<int>(threadIdx.x) / 32 * kSquares; i < band.squares; i += kWarps * kSquares) {
      const Square<kPool> seen(i + lane.g, band, g), first(i + 2 * lane.q, band, g),
          second(i + 2 * lane.q + 1, band, g);
      Pair shares[kQuad] = {};  // of each pixel in the gradient of its square's mean
      if (kPool) {
        join(shares, quad_at(first.exists, first.in_means(band, g)), quad_at(second.exists, second.in_means(band, g)));
#pragma unroll
        for (int f = 0; f < kQuad; ++f) {
          shares[f] = Pairs<T>::of(0.25f * Pairs<T>::first(shares[f]), 0.25f * Pairs<T>::second(shares[f]));
        }
      }
#pragma unroll
      for (int pixels = 0; pixels < 4; pixels += 2) {
        Pair slopes[2][4], have[2];
#pragma unroll
        for (int k = 0; k < 2; ++k) {
          const int pixel = pixels + k;
          have[k] = (first.has(pixel) ? 0xffffu : 0) | (second.has(pixel) ? 0xffff0000u : 0);
          Pair slope[kQuad];
          if (kPool) {
            float z[kQuad][2];
            filters.convolve(z, seen.at(pixel));
#pragma unroll
            for (int f = 0; f < kQuad; ++f) {
              slope[f] = (z[f][0] > Pairs<T>::kRoundsToZero ? shares[f] & 0xffffu : 0) |
                         (z[f][1] > Pairs<T>::kRoundsToZero ? shares[f] & 0xffff0000u : 0);
            }
          } else {
            join(slope, quad_at(first.has(pixel), first.in_y(pixel, band, g)),
                 quad_at(second.has(pixel), second.in_y(pixel, band, g)));
          }
#pragma unroll
          for (int f = 0; f < kQuad; ++f) slopes[f / 2][f % 2 + 2 * k] = slope[f];
        }
#pragma unroll
        for (int j = 0; j < kTiles; ++j) {
          Pair patch[2];
#pragma unroll
          for (int k = 0; k < 2; ++k) {
            const Pair pair =
                pair_of(in_band(first.at(pixels + k) + offsets[j]), in_band(second.at(pixels + k) + offsets[j]));
            patch[k] = (pair & exists[j] & have[k]) | ones[j];
          }
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            Pairs<T>::multiply_add(sums[half][j], slopes[half], patch, sums[half][j]);
          }
        }
      }
    }
  }

  // The warps' sums, one warp after another.
  __shared__ float totals[kFilters][kTerms];
  for (int warp = 0; warp < kWarps; ++warp) {
    __syncthreads();
    if (static_cast<int>(threadIdx.x) / 32 != warp) continue;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int j = 0; j < kTiles; ++j) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float& total = totals[kQuad * lane.g + 2 * half + i / 2][8 * j + 2 * lane.q + i % 2];
          total = warp == 0 ? sums[half][j][i] : total + sums[half][j][i];
        }
      }
    }
  }
  __syncthreads();
  const std::int64_t first_filter = std::int64_t{blockIdx.x} * g.filters + std::int64_t{blockIdx.y} * kFilters;
  for (int i = static_cast<int>(threadIdx.x); i < kFilters * kTerms; i += kThreads) {
    const int filter = i / kTerms, term = i % kTerms;
    if (term <= g.terms) parts[(first_filter + filter) * (g.terms + 1) + term] = totals[filter][term];
  }
}

constexpr int kTotals = 32, kAdders = 16;  // of a block: sums, and threads for each

// Adds up the parts of all blocks. db may be null.
__global__ void __launch_bounds__(kTotals* kAdders)
    few_channels_total_kernel(functors::Output dw, functors::Output db, const float* parts, int blocks, int filters,
                              int terms) {
  __shared__ float sums[kAdders][kTotals];
  const int column = static_cast<int>(threadIdx.x) % kTotals, adder = static_cast<int>(threadIdx.x) / kTotals;
  const int at = static_cast<int>(blockIdx.x) * kTotals + column, count = filters * (terms + 1);
  float sum = 0.0f;
#pragma unroll 8
  for (int block = adder; block < blocks; block += kAdders) {
    if (at < count) sum += parts[std::int64_t{block} * count + at];
  }
  sums[adder][column] = sum;
  __syncthreads();
  if (adder > 0 || at >= count) return;
  for (int i = 1; i < kAdders; ++i) sum += sums[i][column];
  const int filter = at / (terms + 1), term = at % (terms + 1);
  if (term < terms) {
    dw.store(filter * terms + term, sum);
  } else if (db.data != nullptr) {
    db.store(filter, sum);
  }
}

struct Launch {
  FewChannels few;
  Geometry geometry;
  dim3 blocks;
  std::size_t shared;

  template <class Op>
  explicit Launch(const Op& op, const Shape& x, const Shape& w)
      : few(op),
        geometry(x, w, op.options, few, conv2d_shape(x, w, op.options)),
        blocks(static_cast<unsigned int>(few.blocks), static_cast<unsigned int>(w[0] / kFilters)),
        shared(static_cast<std::size_t>(2 * few.band_height * few.band_width * x[3])) {}
};

const void* raw(const Tensor& tensor) { return tensor ? tensor.raw() : nullptr; }
const std::uint16_t* bits(const Tensor& tensor) { return static_cast<const std::uint16_t*>(raw(tensor)); }
DType dtype_of(const Tensor& tensor) { return tensor ? tensor.dtype() : DType::f32; }

// The tensor itself or, since the kernels move quads, memory of its size if it is not aligned to them.
Tensor aligned(const Tensor& tensor, Buffer& memory, const Stream& stream) {
  if (reinterpret_cast<std::uintptr_t>(tensor.raw()) % sizeof(Quad) == 0) return tensor;
  memory = stream.allocate(tensor.bytes());
  return {memory.data(), tensor.dtype(), tensor.shape(), tensor.device()};
}

// Calls f with the type of the elements, and how many products hold a filter's elements and the bias.
template <class F>
void with_kind(DType dtype, int terms, F&& f) {
  functors::with_one_of<BFloat16, Float16>("bf16 or f16", dtype, [&](auto type) {
    if (terms < 16) {
      f(type, std::integral_constant<int, 1>());
    } else {
      f(type, std::integral_constant<int, 2>());
    }
  });
}

}  // namespace

void few_channels_conv2d(const ops::Conv2d& op, const Stream& stream) {
  const Launch launch(op, op.x.shape(), op.w.shape());
  Buffer memory;
  const Tensor y = aligned(op.y, memory, stream);
  with_kind(y.dtype(), launch.geometry.terms,
            [&]<class T, int kSteps>(functors::Type<T>, std::integral_constant<int, kSteps>) {
              const auto kernel =
                  op.has_pool ? few_channels_kernel<T, kSteps, true> : few_channels_kernel<T, kSteps, false>;
              kernel<<<launch.blocks, kThreads, launch.shared, handle(stream)>>>(
                  static_cast<std::uint16_t*>(y.raw()), bits(op.x), bits(op.w), raw(op.b), dtype_of(op.b), op.has_relu,
                  launch.geometry);
            });
  check_launch("few_channels_kernel");
  if (memory) stream.copy(op.y.raw(), y.raw(), y.bytes());
}

void few_channels_conv2d_backward_filter(const ops::Conv2dBackward& op, const Stream& stream) {
  const Launch launch(op, op.x.shape(), op.dw.shape());
  Buffer memory;
  const Tensor dz = aligned(op.dz, memory, stream);
  if (memory) stream.copy(dz.raw(), op.dz.raw(), dz.bytes());
  const int terms = launch.geometry.terms, filters = launch.geometry.filters;
  const std::int64_t blocks = launch.blocks.x, count = std::int64_t{filters} * (terms + 1);
  const Buffer parts = stream.allocate(static_cast<std::size_t>(blocks * count) * sizeof(float));
  with_kind(dz.dtype(), terms, [&]<class T, int kSteps>(functors::Type<T>, std::integral_constant<int, kSteps>) {
    const auto kernel = op.has_pool ? few_channels_backward_filter_kernel<T, kSteps, true>
                                    : few_channels_backward_filter_kernel<T, kSteps, false>;
    kernel<<<launch.blocks, kThreads, launch.shared, handle(stream)>>>(static_cast<float*>(parts.data()), bits(dz),
                                                                       bits(op.x), bits(op.w), raw(op.b),
                                                                       dtype_of(op.b), launch.geometry);
  });
  check_launch("few_channels_backward_filter_kernel");
  few_channels_total_kernel<<<blocks_for(count, kTotals), kTotals * kAdders, 0, handle(stream)>>>(
      functors::Output(op.dw), functors::Output(const_cast<void*>(raw(op.db)), dtype_of(op.db)),
      static_cast<const float*>(parts.data()), static_cast<int>(blocks), filters, terms);
  check_launch("few_channels_total_kernel");
}

}  // namespace giro::cuda
