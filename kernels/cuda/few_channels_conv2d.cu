#include "kernels/cuda/own_conv2d.h"

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/few_channels_tile.cuh"
#include "kernels/cuda/kernel_launch.cuh"
#include "kernels/host_device/pool_windows.h"
#include "kernels/host_device/storage.h"

namespace giro::cuda {
namespace few_channels {
namespace {

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

// host_device::Relu, but for the sign of a zero.
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
            stored[k] = Pairs<T>::of(host_device::Relu::value(values[0]), host_device::Relu::value(values[1]));
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
    few_channels_total_kernel(host_device::Output dw, host_device::Output db, const float* parts, int blocks,
                              int filters, int terms) {
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

const std::uint16_t* bits(const Tensor& tensor) { return static_cast<const std::uint16_t*>(tensor.raw()); }

// The tensor itself or, since the kernels move quads, memory of its size if it is not aligned to them.
Tensor aligned(const Tensor& tensor, Temporary& memory, const Stream& stream) {
  if (reinterpret_cast<std::uintptr_t>(tensor.raw()) % sizeof(Quad) == 0) return tensor;
  return memory = Temporary(tensor.dtype(), tensor.shape(), stream);
}

// Calls f with the type of the elements, and how many products hold a filter's elements and the bias.
template <class F>
void with_kind(DType dtype, int terms, F&& f) {
  host_device::with_one_of<BFloat16, Float16>("bf16 or f16", dtype, [&](auto type) {
    if (terms < 16) {
      f(type, std::integral_constant<int, 1>());
    } else {
      f(type, std::integral_constant<int, 2>());
    }
  });
}

}  // namespace
}  // namespace few_channels

void few_channels_conv2d(const ops::Conv2d& op, const Stream& stream) {
  using namespace few_channels;
  const Launch launch(op, op.x.shape(), op.w.shape());
  Temporary memory;
  const Tensor y = aligned(op.y, memory, stream);
  with_kind(y.dtype(), launch.geometry.terms,
            [&]<class T, int kSteps>(host_device::Type<T>, std::integral_constant<int, kSteps>) {
              const auto kernel =
                  op.has_pool ? few_channels_kernel<T, kSteps, true> : few_channels_kernel<T, kSteps, false>;
              kernel<<<launch.blocks, kThreads, launch.shared, handle(stream)>>>(
                  static_cast<std::uint16_t*>(y.raw()), bits(op.x), bits(op.w), op.b.raw(), op.b.dtype(), op.has_relu,
                  launch.geometry);
            });
  check_launch("few_channels_kernel");
  if (memory) stream.copy(op.y.raw(), y.raw(), y.bytes());
}

void few_channels_conv2d_backward_filter(const ops::Conv2dBackward& op, const Stream& stream) {
  using namespace few_channels;
  const Launch launch(op, op.x.shape(), op.dw.shape());
  Temporary memory;
  const Tensor dz = aligned(op.dz, memory, stream);
  if (memory) stream.copy(dz.raw(), op.dz.raw(), dz.bytes());
  const int terms = launch.geometry.terms, filters = launch.geometry.filters;
  const std::int64_t blocks = launch.blocks.x, count = std::int64_t{filters} * (terms + 1);
  const Temporary parts(DType::f32, {blocks, count}, stream);
  with_kind(dz.dtype(), terms, [&]<class T, int kSteps>(host_device::Type<T>, std::integral_constant<int, kSteps>) {
    const auto kernel = op.has_pool ? few_channels_backward_filter_kernel<T, kSteps, true>
                                    : few_channels_backward_filter_kernel<T, kSteps, false>;
    kernel<<<launch.blocks, kThreads, launch.shared, handle(stream)>>>(
        parts.data<float>(), bits(dz), bits(op.x), bits(op.w), op.b.raw(), op.b.dtype(), launch.geometry);
  });
  check_launch("few_channels_backward_filter_kernel");
  few_channels_total_kernel<<<blocks_for(count, kTotals), kTotals * kAdders, 0, handle(stream)>>>(
      host_device::Output(op.dw), host_device::Output(op.db), parts.data<float>(), static_cast<int>(blocks), filters,
      terms);
  check_launch("few_channels_total_kernel");
}

}  // namespace giro::cuda
