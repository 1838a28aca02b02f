#include "kernels/cpu/tile_loops.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include <giro/runtime/float16.h>

#include "kernels/expr/instruction_sets.h"
#include "runtime/dtype_dispatch.h"

namespace giro::cpu {
namespace {

using expr::Compiled;

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
    for (std::int64_t i = 0; i < n; ++i) y[i] = converted<To>(x[i]);
  }
};

template <class To>
struct Rounding {
  GIRO_LOOP_INLINE static void run(const void* in, void* out, std::int64_t n) {
    const float* const x = static_cast<const float*>(in);
    float* const y = static_cast<float*>(out);
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) y[i] = static_cast<float>(To(x[i]));
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
