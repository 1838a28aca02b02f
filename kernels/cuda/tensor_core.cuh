#pragma once

#include <cstdint>
#include <type_traits>

#include <giro/runtime/float16.h>

// Tensor cores multiply elements of 16 bits, two in each register.
namespace giro::cuda {

// The first element is in the lower half.
using Pair = std::uint32_t;

__device__ inline Pair pair_of(std::uint16_t first, std::uint16_t second) { return first | Pair{second} << 16; }

__device__ inline float float_of(std::uint16_t half) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
  return value;
}

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
    return kIsBFloat16 ? __uint_as_float(pair << 16) : float_of(static_cast<std::uint16_t>(pair));
  }
  __device__ static float second(Pair pair) {
    return kIsBFloat16 ? __uint_as_float(pair & 0xffff0000u) : float_of(static_cast<std::uint16_t>(pair >> 16));
  }

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

}  // namespace giro::cuda
