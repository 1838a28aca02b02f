#include "kernels/cuda/expression_prelude.h"

namespace giro::cuda {

std::string_view expression_prelude() {
  return R"cuda(#ifndef GIRO_EXPRESSION_PRELUDE
#define GIRO_EXPRESSION_PRELUDE
)cuda"
#define GIRO_DEVICE_CODE(...) #__VA_ARGS__
#include "kernels/cuda/last_block.cuh"
         R"cuda(
namespace giro {
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;
typedef float f32;
typedef double f64;

// What memory holds where it is not what is computed with: bf16 and f16 are computed in float, a byte as bool.
struct bf16 { u16 bits; };
struct f16 { u16 bits; };
struct boolean { u8 byte; };

__device__ inline float value(bf16 x) { return __uint_as_float(u32(x.bits) << 16); }
__device__ inline float value(f16 x) {
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(x.bits));
  return result;
}
__device__ inline bool value(boolean x) { return x.byte != 0; }
template <class T>
__device__ inline T value(T x) { return x; }

// What memory holds of a value of its type. Values of 16 bits are rounded already: a float holds them exactly.
template <class S>
struct Store {
  template <class T>
  static __device__ inline S of(T x) { return S(x); }
};
template <>
struct Store<bf16> {
  static __device__ inline bf16 of(float x) { return {u16(__float_as_uint(x) >> 16)}; }
};
template <>
struct Store<f16> {
  static __device__ inline f16 of(float x) {
    const u32 u = __float_as_uint(x);
    if ((u & 0x7fffffffu) > 0x7f800000u) return {u16((u >> 16 & 0x8000u) | 0x7e00u)};
    f16 result;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(x));
    return result;
  }
};
template <>
struct Store<boolean> {
  static __device__ inline boolean of(bool x) { return {u8(x)}; }
};
// All NaNs are one: their signs and payloads differ with the code that has computed them.
__device__ inline double as_double(double x) { return x == x ? x : __longlong_as_double(0x7ff8000000000000LL); }

// To the nearest, ties to even; a NaN stays one, with the bits that the host's conversion gives it.
template <class S>
__device__ inline float rounded(float x) { return value(Store<S>::of(x)); }
template <>
__device__ inline float rounded<bf16>(float x) {
  bf16 result;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(x));
  if (x != x) result.bits = u16(__float_as_uint(x) >> 16 | 0x40u);
  return value(result);
}

// Truncated toward 0 to an integer, != 0 to a bool.
template <class T>
struct Cast {
  template <class From>
  static __device__ inline T of(From x) { return T(x); }
};
template <>
struct Cast<bool> {
  template <class From>
  static __device__ inline bool of(From x) { return x != From(0); }
};

template <int kBytes, int kElement> struct Word { typedef uint4 type; };
template <> struct Word<16, 8> { typedef ulonglong2 type; };
template <int kElement> struct Word<8, kElement> { typedef uint2 type; };
template <int kElement> struct Word<4, kElement> { typedef u32 type; };
template <int kElement> struct Word<2, kElement> { typedef u16 type; };
template <int kElement> struct Word<1, kElement> { typedef u8 type; };

// Elements that lie one after the other, moved 16 bytes at a time.
template <class S, int N>
union Pack {
  enum { kWord = sizeof(S) * N < 16 ? sizeof(S) * N : 16 };
  typedef typename Word<kWord, sizeof(S)>::type W;
  S element[N];
  W word[sizeof(S) * N / kWord];
};
// `count`: how many there are; the others are 0. kWhole: either all or none are.
template <int N, bool kWhole, class S, class Index>
__device__ inline Pack<S, N> load(const S* from, Index count) {
  Pack<S, N> pack{};
  if (kWhole ? count > 0 : count >= N) {
#pragma unroll
    for (int i = 0; i < int(sizeof pack.word / sizeof pack.word[0]); ++i)
      pack.word[i] = reinterpret_cast<const typename Pack<S, N>::W*>(from)[i];
  } else if (!kWhole) {
#pragma unroll
    for (int i = 0; i < N; ++i)
      if (i < count) pack.element[i] = from[i];
  }
  return pack;
}
template <int N, class S, class Stride, class Index>
__device__ inline Pack<S, N> gather(const S* from, Stride stride, Index count) {
  Pack<S, N> pack{};
#pragma unroll
  for (int i = 0; i < N; ++i)
    if (i < count) pack.element[i] = from[i * stride];
  return pack;
}
template <int N, bool kWhole, class S, class Index>
__device__ inline void store(S* to, const Pack<S, N>& pack, Index count) {
  if (kWhole ? count > 0 : count >= N) {
#pragma unroll
    for (int i = 0; i < int(sizeof pack.word / sizeof pack.word[0]); ++i)
      reinterpret_cast<typename Pack<S, N>::W*>(to)[i] = pack.word[i];
  } else if (!kWhole) {
#pragma unroll
    for (int i = 0; i < N; ++i)
      if (i < count) to[i] = pack.element[i];
  }
}
// Of the rows that an element has. NVRTC splits some plain stores of such packs.
template <int N, class S>
__device__ inline void store_rows(S* to, const Pack<S, N>& pack, bool exists) {
#pragma unroll
  for (int i = 0; i < int(sizeof pack.word / sizeof pack.word[0]); ++i)
    if (exists) __stwb(reinterpret_cast<typename Pack<S, N>::W*>(to) + i, pack.word[i]);
}
template <int N, class S, class Stride, class Index>
__device__ inline void scatter(S* to, Stride stride, const Pack<S, N>& pack, Index count) {
#pragma unroll
  for (int i = 0; i < N; ++i)
    if (i < count) to[i * stride] = pack.element[i];
}

// For scalar functions.
#define GIRO_ARITHMETIC __device__ inline
)cuda"
#include "kernels/expr/arithmetic_code.h"
         R"cuda(
__device__ inline f32 abs(f32 a) { return ::fabsf(a); }
__device__ inline f64 abs(f64 a) { return ::fabs(a); }
template <class T> __device__ inline bool is_nan(T x) { return x != x; }
template <class T> __device__ inline T maximum(T a, T b) { return b > a || is_nan(b) ? b : a; }
template <class T> __device__ inline T minimum(T a, T b) { return b < a || is_nan(b) ? b : a; }

// As runtime/rng.h has it. Elements that share a block lie in one pack: it is computed once for them.
struct PhiloxBlock { u32 word[4]; };
__device__ inline PhiloxBlock philox(u64 key, u64 low, u64 high) {
  u32 k0 = u32(key), k1 = u32(key >> 32);
  PhiloxBlock c = {{u32(low), u32(low >> 32), u32(high), u32(high >> 32)}};
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const u32 high0 = __umulhi(0xD2511F53u, c.word[0]), high1 = __umulhi(0xCD9E8D57u, c.word[2]);
    c = {{high1 ^ c.word[1] ^ k0, 0xCD9E8D57u * c.word[2], high0 ^ c.word[3] ^ k1, 0xD2511F53u * c.word[0]}};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}
)cuda"
#include "kernels/expr/random_by_key_code.h"
#undef GIRO_DEVICE_CODE
         R"cuda(
__device__ inline f32 normal_by_key(i64 key, i64 i) {
  const TwoWords words = two_words<2>(key, i);
  const f32 uniform = (f32(words.first >> 1) + 0.5f) * 0x1p-31f;
  return ::sqrtf(-2.0f * ::logf(uniform)) * ::cospif(f32(i32(words.second)) * 0x1p-31f);
}
}  // namespace giro
#endif
)cuda";
}

}  // namespace giro::cuda
