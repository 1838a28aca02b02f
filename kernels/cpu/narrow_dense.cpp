#include "kernels/cpu/narrow_dense.h"

#include "kernels/cpu/for_each.h"

#if defined(__x86_64__)

// g++ 12 warns about values that its own intrinsics leave uninitialized on purpose (GCC bug 105593).
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#include <algorithm>

// The rest of giro runs on any x86-64; callers of these functions check can_run() first.
#define GIRO_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma")))
#define GIRO_AVX512_INLINE __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma"), always_inline)) inline

namespace giro::cpu::narrow {
namespace {

constexpr std::int64_t kLanes = 16;

// (rows, inputs) f32, or bytes to be multiplied by `factor`.
struct Input {
  const float* floats = nullptr;
  const std::uint8_t* bytes = nullptr;
  float factor;
  std::int64_t rows, inputs;

  Input(const Tensor& x, double factor) : factor(static_cast<float>(factor)), rows(x.shape()[0]), inputs(x.shape()[1]) {
    if (x.dtype() == DType::u8) {
      bytes = x.data<std::uint8_t>();
    } else {
      floats = x.data<float>();
    }
  }
};

std::int64_t round_up(std::int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

// A mask of the first n lanes, at most 16.
__mmask16 first(std::int64_t n) { return static_cast<__mmask16>((1u << std::min(n, kLanes)) - 1u); }

// rows[i] lane j becomes rows[j] lane i.
GIRO_AVX512_INLINE void transpose(__m512 (&rows)[16]) {
  __m512 pairs[16], quads[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    pairs[i] = _mm512_unpacklo_ps(rows[i], rows[i + 1]);
    pairs[i + 1] = _mm512_unpackhi_ps(rows[i], rows[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      const __m512d a = _mm512_castps_pd(pairs[i + half]), b = _mm512_castps_pd(pairs[i + 2 + half]);
      quads[i + 2 * half] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
      quads[i + 2 * half + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
    }
  }
  // quads[4 q + c] holds columns c, c + 4, c + 8, c + 12 of rows 4 q to 4 q + 3, a column in each quarter.
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    const __m512 low = _mm512_shuffle_f32x4(quads[c], quads[4 + c], 0x88);
    const __m512 high = _mm512_shuffle_f32x4(quads[8 + c], quads[12 + c], 0x88);
    const __m512 low_odd = _mm512_shuffle_f32x4(quads[c], quads[4 + c], 0xdd);
    const __m512 high_odd = _mm512_shuffle_f32x4(quads[8 + c], quads[12 + c], 0xdd);
    rows[c] = _mm512_shuffle_f32x4(low, high, 0x88);
    rows[c + 8] = _mm512_shuffle_f32x4(low, high, 0xdd);
    rows[c + 4] = _mm512_shuffle_f32x4(low_odd, high_odd, 0x88);
    rows[c + 12] = _mm512_shuffle_f32x4(low_odd, high_odd, 0xdd);
  }
}

template <bool kBytes>
GIRO_AVX512_INLINE __m512 load(const Input& x, std::int64_t at, __mmask16 mask, __m512 factor) {
  if constexpr (kBytes) {
    const __m128i bytes = _mm_maskz_loadu_epi8(mask, x.bytes + at);
    return _mm512_mul_ps(factor, _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes)));
  } else {
    return _mm512_maskz_loadu_ps(mask, x.floats + at);
  }
}

// w (inputs, outputs) as (inputs / 16, kOutputs, 16), padded with zeros.
template <int kOutputs>
GIRO_AVX512 void pack_weights(float* packed, const float* w, std::int64_t inputs, std::int64_t outputs) {
  const __mmask16 mask = first(outputs);
  for (std::int64_t k = 0; k < inputs; k += kLanes) {
    __m512 rows[16];
#pragma GCC unroll 16
    for (std::int64_t i = 0; i < kLanes; ++i) {
      rows[i] = k + i < inputs ? _mm512_maskz_loadu_ps(mask, w + (k + i) * outputs) : _mm512_setzero_ps();
    }
    transpose(rows);
#pragma GCC unroll 16
    for (int n = 0; n < kOutputs; ++n) _mm512_storeu_ps(packed + k * kOutputs + n * kLanes, rows[n]);
  }
}

// kRows rows of y at once, kOutputs outputs each. The last outputs may be padding.
template <int kOutputs, int kRows, bool kBytes>
GIRO_AVX512_INLINE void dense_rows(float* y, const Input& x, std::int64_t row, const float* packed, __m512 bias,
                                   std::int64_t outputs) {
  const __m512 factor = _mm512_set1_ps(x.factor);
  __m512 sums[kRows][16];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int n = 0; n < 16; ++n) sums[r][n] = _mm512_setzero_ps();
  }
  for (std::int64_t k = 0; k < x.inputs; k += kLanes) {
    const __mmask16 mask = first(x.inputs - k);
    __m512 value[kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) value[r] = load<kBytes>(x, (row + r) * x.inputs + k, mask, factor);
#pragma GCC unroll 16
    for (int n = 0; n < kOutputs; ++n) {
      const __m512 weight = _mm512_loadu_ps(packed + k * kOutputs + n * kLanes);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) sums[r][n] = _mm512_fmadd_ps(value[r], weight, sums[r][n]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    transpose(sums[r]);
#pragma GCC unroll 4
    for (int width = 8; width > 0; width /= 2) {
#pragma GCC unroll 8
      for (int i = 0; i < width; ++i) sums[r][i] = _mm512_add_ps(sums[r][i], sums[r][i + width]);
    }
    _mm512_mask_storeu_ps(y + (row + r) * outputs, first(outputs), _mm512_add_ps(sums[r][0], bias));
  }
}

template <int kOutputs, int kRows, bool kBytes>
GIRO_AVX512 void dense_block(float* y, const Input& x, std::int64_t begin, std::int64_t end, const float* packed,
                             const float* b, std::int64_t outputs) {
  const __m512 bias = b == nullptr ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(first(outputs), b);
  std::int64_t row = begin;
  for (; row + kRows <= end; row += kRows) {
    dense_rows<kOutputs, kRows, kBytes>(y, x, row, packed, bias, outputs);
  }
  for (; row < end; ++row) dense_rows<kOutputs, 1, kBytes>(y, x, row, packed, bias, outputs);
}

// Adds the terms of rows [begin, end) to kVectors vectors of inputs, from `k` on, for each output. sums has the layout
// of the packed weights; dz is (rows, kOutputs).
template <int kOutputs, int kVectors, bool kBytes>
GIRO_AVX512 void add_gradient(float* sums, const float* dz, const Input& x, std::int64_t begin, std::int64_t end,
                              std::int64_t k) {
  const __m512 factor = _mm512_set1_ps(x.factor);
  __m512 total[kVectors][kOutputs];
  __mmask16 masks[kVectors];
#pragma GCC unroll 2
  for (int v = 0; v < kVectors; ++v) {
    masks[v] = x.inputs > k + v * kLanes ? first(x.inputs - k - v * kLanes) : __mmask16{0};
#pragma GCC unroll 16
    for (int n = 0; n < kOutputs; ++n) total[v][n] = _mm512_loadu_ps(sums + (k + v * kLanes) * kOutputs + n * kLanes);
  }
  for (std::int64_t r = begin; r < end; ++r) {
    __m512 value[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      value[v] = load<kBytes>(x, r * x.inputs + k + v * kLanes, masks[v], factor);
    }
#pragma GCC unroll 16
    for (int n = 0; n < kOutputs; ++n) {
      const __m512 gradient = _mm512_set1_ps(dz[r * kOutputs + n]);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) total[v][n] = _mm512_fmadd_ps(value[v], gradient, total[v][n]);
    }
  }
#pragma GCC unroll 2
  for (int v = 0; v < kVectors; ++v) {
#pragma GCC unroll 16
    for (int n = 0; n < kOutputs; ++n) _mm512_storeu_ps(sums + (k + v * kLanes) * kOutputs + n * kLanes, total[v][n]);
  }
}

template <int kOutputs>
GIRO_AVX512 void unpack_gradient(float* dw, const float* sums, std::int64_t begin, std::int64_t end,
                                 std::int64_t outputs) {
  const __mmask16 mask = first(outputs);
  for (std::int64_t k = begin; k < end; k += kLanes) {
    __m512 rows[16];
#pragma GCC unroll 16
    for (int n = 0; n < 16; ++n)
      rows[n] = n < kOutputs ? _mm512_loadu_ps(sums + k * kOutputs + n * kLanes) : _mm512_setzero_ps();
    transpose(rows);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      if (k + i < end) _mm512_mask_storeu_ps(dw + (k + i) * outputs, mask, rows[i]);
    }
  }
}

// Queues f(input, workspace) with the smallest implemented number of outputs that is enough, for floats or for bytes.
template <class F>
void submit_case(const Tensor& x, double factor, std::int64_t outputs, const Stream& stream, const F& f) {
  const Input input(x, factor);
  const int padded = outputs <= 4 ? 4 : outputs <= 10 ? 10 : 16;
  const Temporary workspace(DType::f32, {round_up(input.inputs) + kLanes + input.rows, padded}, stream);
  submit(stream, [input, outputs, f, space = workspace.data<float>()] {
    const auto with_outputs = [&]<bool kBytes>() {
      if (outputs <= 4) return f.template operator()<4, kBytes>(input, space);
      if (outputs <= 10) return f.template operator()<10, kBytes>(input, space);
      f.template operator()<16, kBytes>(input, space);
    };
    if (input.bytes != nullptr) return with_outputs.template operator()<true>();
    with_outputs.template operator()<false>();
  });
}

}  // namespace

bool can_run(std::int64_t outputs) {
  static const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                                 __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return has_avx512 && outputs >= 1 && outputs <= kMaxOutputs;
}

void dense(const Tensor& y, const Tensor& x, double factor, const Tensor& w, const Tensor& b, const Stream& stream) {
  const std::int64_t outputs = w.shape()[1];
  submit_case(x, factor, outputs, stream,
              [outputs, y = y.data<float>(), w = w.data<float>(),
               b = b ? b.data<float>() : nullptr]<int kOutputs, bool kBytes>(const Input& x, float* packed) {
                pack_weights<kOutputs>(packed, w, x.inputs, outputs);
                constexpr int kRows = kOutputs <= 4 ? 4 : kOutputs <= 10 ? 2 : 1;
                constexpr std::int64_t kBlockRows = 32;
                for_each_block(x.rows, kBlockRows, x.rows * x.inputs * outputs / kLanes,
                               [&](std::int64_t begin, std::int64_t end) {
                                 dense_block<kOutputs, kRows, kBytes>(y, x, begin, end, packed, b, outputs);
                               });
              });
}

void weight_gradient(const Tensor& dw, const Tensor& dz, const Tensor& x, double factor, const Stream& stream) {
  const std::int64_t outputs = dw.shape()[1];
  submit_case(
      x, factor, outputs, stream,
      [outputs, dw = dw.data<float>(), dz = dz.data<float>()]<int kOutputs, bool kBytes>(const Input& x, float* sums) {
        constexpr int kVectors = kOutputs <= 10 ? 2 : 1;
        constexpr std::int64_t kStrip = kVectors * kLanes, kBlockInputs = 8 * kStrip, kBlockRows = 64;
        const std::int64_t padded_inputs = round_up(x.inputs) + kLanes;
        const float* gradients = dz;
        if (outputs < kOutputs) {
          float* const wide = sums + kOutputs * padded_inputs;
          std::fill_n(wide, x.rows * kOutputs, 0.0f);
          for (std::int64_t r = 0; r < x.rows; ++r) std::copy_n(dz + r * outputs, outputs, wide + r * kOutputs);
          gradients = wide;
        }
        const std::int64_t work = x.rows * x.inputs * outputs / kLanes;
        for_each_block(x.inputs, kBlockInputs, work, [&](std::int64_t begin, std::int64_t end) {
          const std::int64_t padded_end = std::min(begin + kBlockInputs, padded_inputs);
          std::fill(sums + begin * kOutputs, sums + padded_end * kOutputs, 0.0f);
          for (std::int64_t row = 0; row < x.rows; row += kBlockRows) {
            for (std::int64_t k = begin; k < end; k += kStrip) {
              add_gradient<kOutputs, kVectors, kBytes>(sums, gradients, x, row, std::min(row + kBlockRows, x.rows), k);
            }
          }
          unpack_gradient<kOutputs>(dw, sums, begin, end, outputs);
        });
      });
}

}  // namespace giro::cpu::narrow

#else

namespace giro::cpu::narrow {
bool can_run(std::int64_t) { return false; }
void dense(const Tensor&, const Tensor&, double, const Tensor&, const Tensor&, const Stream&) {}
void weight_gradient(const Tensor&, const Tensor&, const Tensor&, double, const Stream&) {}
}  // namespace giro::cpu::narrow

#endif
