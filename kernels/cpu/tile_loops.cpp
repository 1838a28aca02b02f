#include "kernels/cpu/tile_loops.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include <giro/runtime/float16.h>

#include "kernels/expr/math.h"
#include "runtime/dtype_dispatch.h"

namespace giro::cpu {
namespace {

using expr::Compiled;
using expr::math::as_float;
using expr::math::bits;

GIRO_LOOP_INLINE float widened(BFloat16 x) { return as_float(static_cast<std::uint32_t>(x.bits) << 16); }
GIRO_LOOP_INLINE float widened(Float16 x) {
  const std::uint32_t magnitude = x.bits & 0x7fffu;
  const float normal = as_float((magnitude << 13) + (112u << 23));
  const float tiny = static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24f;
  const float special = as_float((magnitude << 13) | 0x7f800000u);
  const float value = magnitude < 0x400u ? tiny : magnitude < 0x7c00u ? normal : special;
  return as_float(bits(value) | (x.bits & 0x8000u) << 16);
}

// The conversions of float16.h without branches.
GIRO_LOOP_INLINE std::uint16_t narrowed(float x, BFloat16) {
  const std::uint32_t u = bits(x);
  const std::uint32_t rounded = (u + 0x7fffu + (u >> 16 & 1u)) >> 16;
  return static_cast<std::uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? (u >> 16) | 0x40u : rounded);
}
GIRO_LOOP_INLINE std::uint16_t narrowed(float x, Float16) {
  const std::uint32_t u = bits(x), magnitude = u & 0x7fffffffu;
  const std::uint32_t normal = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
  const std::uint32_t tiny = bits(as_float(magnitude) + 0.5f) - bits(0.5f);  // an ulp of 0.5f is the smallest f16
  const std::uint32_t special = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
  const std::uint32_t half = magnitude < 0x38800000u ? tiny : magnitude < 0x477ff000u ? normal : special;
  return static_cast<std::uint16_t>((u >> 16 & 0x8000u) | half);
}

template <class To, class From>
GIRO_LOOP_INLINE To converted(From x) {
  if constexpr (std::is_same_v<To, bool>) {
    return x != From(0);
  } else if constexpr (std::is_floating_point_v<From> && std::is_same_v<To, std::uint8_t>) {
    return static_cast<To>(!(x > 0) ? 0 : x < 255 ? static_cast<std::int32_t>(x) : 255);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    constexpr From kEnd = static_cast<From>(sizeof(To) == 8 ? 0x1p63 : 0x1p31);
    return x >= -kEnd && x < kEnd ? static_cast<To>(x)
           : x != x               ? To(0)
           : x < 0                ? std::numeric_limits<To>::min()
                                  : std::numeric_limits<To>::max();
  } else {
    return static_cast<To>(x);
  }
}

template <class From, class To>
struct Conversion {
  GIRO_LOOP_INLINE static void run(const void* in, void* out, std::int64_t n) {
    const From* const x = static_cast<const From*>(in);
    To* const y = static_cast<To*>(out);
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) {
      if constexpr (is_16_bit(dtype_of<From>)) {
        y[i] = widened(x[i]);
      } else if constexpr (is_16_bit(dtype_of<To>)) {
        y[i].bits = narrowed(x[i], To());
      } else {
        y[i] = converted<To>(x[i]);
      }
    }
  }
};

template <class To>
struct Rounding {
  GIRO_LOOP_INLINE static void run(const void* in, void* out, std::int64_t n) {
    const float* const x = static_cast<const float*>(in);
    float* const y = static_cast<float*>(out);
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) {
      To stored;
      stored.bits = narrowed(x[i], To());
      y[i] = widened(stored);
    }
  }
};

template <class T>
void copy_elements(const std::byte* in, std::int64_t in_stride, std::byte* out, std::int64_t out_stride,
                   std::int64_t n) {
  const T* const x = reinterpret_cast<const T*>(in);
  T* const y = reinterpret_cast<T*>(out);
  if (out_stride == 1 && in_stride == 0) {
    const T value = *x;
    for (std::int64_t i = 0; i < n; ++i) y[i] = value;
  } else if (out_stride == 1) {
    for (std::int64_t i = 0; i < n; ++i) y[i] = x[i * in_stride];
  } else {
    for (std::int64_t i = 0; i < n; ++i) y[i * out_stride] = x[i * in_stride];
  }
}

template <class T>
void repeat_elements(const std::byte* in, std::int64_t in_stride, std::byte* out, std::int64_t n, std::int64_t each) {
  constexpr std::int64_t kTogether = 16 / sizeof(T);
  const T* const x = reinterpret_cast<const T*>(in);
  T* const y = reinterpret_cast<T*>(out);
  if (each == kTogether) {
    for (std::int64_t r = 0; r < n; ++r) {
      const T value = x[r * in_stride];
      for (std::int64_t i = 0; i < kTogether; ++i) y[r * kTogether + i] = value;
    }
  } else {
    for (std::int64_t r = 0; r < n; ++r) std::fill_n(y + r * each, each, x[r * in_stride]);
  }
}

// Calls f with an integer of `size` bytes.
template <class F>
void with_element(std::size_t size, const F& f) {
  if (size == 8) return f(std::uint64_t{});
  if (size == 4) return f(std::uint32_t{});
  if (size == 2) return f(std::uint16_t{});
  f(std::uint8_t{});
}

}  // namespace

TileLoop conversion(DType from, DType to) {
  TileLoop result = nullptr;
  host_device::with_any(from, [&]<class From>(host_device::Type<From>) {
    host_device::with_any(to, [&]<class To>(host_device::Type<To>) {
      constexpr bool kNarrow = is_16_bit(dtype_of<From>) || is_16_bit(dtype_of<To>);
      if constexpr (!kNarrow || (std::is_same_v<From, float> != std::is_same_v<To, float>)) {
        result = Compiled<Conversion<From, To>>::all.get();
      }
    });
  });
  return result;
}

TileLoop rounding(DType to) {
  return to == DType::bf16 ? Compiled<Rounding<BFloat16>>::all.get() : Compiled<Rounding<Float16>>::all.get();
}

void repeat(std::size_t size, const std::byte* in, std::int64_t in_stride, std::byte* out, std::int64_t n,
            std::int64_t each) {
  with_element(size, [&]<class T>(T) { repeat_elements<T>(in, in_stride, out, n, each); });
}

void copy_strided(std::size_t size, const std::byte* in, std::int64_t in_stride, std::byte* out,
                  std::int64_t out_stride, std::int64_t n) {
  if (in_stride == 1 && out_stride == 1) {
    std::memcpy(out, in, static_cast<std::size_t>(n) * size);
  } else {
    with_element(size, [&]<class T>(T) { copy_elements<T>(in, in_stride, out, out_stride, n); });
  }
}

}  // namespace giro::cpu
