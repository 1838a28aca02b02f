// Without an include guard: chain.cpp includes it once for each instruction set, each in its own namespace. Compilers
// lower vector types before they inline functions, so every function that uses them needs the target.

constexpr int kRegisters = kVector == 64 ? kOf32 : kOf16;

#define GIRO_INLINE GIRO_TARGET inline __attribute__((always_inline))
GIRO_INLINE float root(float a) { return __builtin_sqrtf(a); }
template <class V>
GIRO_INLINE V root(V a) {  // one instruction
  V y = a;
  _Pragma("GCC unroll 16") for (std::size_t l = 0; l < sizeof(V) / 4; ++l) { y[l] = __builtin_sqrtf(a[l]); }
  return y;
}
// Rounds to a 16-bit value, as in tile_loops.cpp.
template <class V, class Bits>
GIRO_INLINE V to_bf16(V, Bits u) {
  const Bits rounded = u + 0x7fff + (u >> 16 & 1);
  return __builtin_bit_cast(V, ((u & 0x7fffffff) > 0x7f800000 ? u | 0x400000 : rounded) & 0xffff0000);
}
template <class V, class Bits>
GIRO_INLINE V to_f16(V, Bits u) {
  const Bits size = u & 0x7fffffff, normal = (size + 0xfff + (size >> 13 & 1)) & 0xffffe000;
  const V tiny = __builtin_bit_cast(V, size) + 0.5f - 0.5f;  // an ulp of 0.5 is the smallest f16
  const Bits special = size > 0x7f800000 ? Bits{} + 0x7fc00000 : Bits{} + 0x7f800000;
  const Bits finite = size < 0x38800000 ? __builtin_bit_cast(Bits, tiny) : normal;
  return __builtin_bit_cast(V, (size < 0x477ff000 ? finite : special) | (u & 0x80000000));
}

GIRO_INLINE float multiply_add(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
template <class V>
GIRO_INLINE V multiply_add(V a, V b, V c) {  // one instruction, or calls where there is none
  V y = a;
  _Pragma("GCC unroll 16") for (std::size_t l = 0; l < sizeof(V) / 4; ++l) { y[l] = __builtin_fmaf(a[l], b[l], c[l]); }
  return y;
}

// Stores past the caches where there is an instruction for it.
template <int kBytes, class V>
GIRO_INLINE void stream(std::byte* to, V x) {
#if defined(__x86_64__)
  if (reinterpret_cast<std::uintptr_t>(to) % kBytes == 0) {
    if constexpr (kBytes == 64) return _mm512_stream_ps(reinterpret_cast<float*>(to), x);
    if constexpr (kBytes == 32) return _mm256_stream_ps(reinterpret_cast<float*>(to), x);
    if constexpr (kBytes == 16) return _mm_stream_ps(reinterpret_cast<float*>(to), x);
  }
#endif
  using M = typename Vector<kBytes>::in_memory;  // as a template argument it would lose its alignment
  *reinterpret_cast<M*>(to) = x;
}

// kCount vectors for exponential.h. They are independent, so the latencies of their instructions overlap.
template <class V, class Bits, int kCount>
struct Pack {
  V v[kCount];

#define GIRO_OF_EACH(...)                                                             \
  Pack y;                                                                             \
  _Pragma("GCC unroll 16") for (int r = 0; r < kCount; ++r) { y.v[r] = __VA_ARGS__; } \
  return y
#define GIRO_OPERATOR(OP)                                                                 \
  GIRO_INLINE friend Pack operator OP(Pack a, Pack b) { GIRO_OF_EACH(a.v[r] OP b.v[r]); } \
  GIRO_INLINE friend Pack operator OP(Pack a, float b) { GIRO_OF_EACH(a.v[r] OP b); }
  GIRO_OPERATOR(+)
  GIRO_OPERATOR(-)
  GIRO_OPERATOR(*)
  GIRO_OPERATOR(/)
#undef GIRO_OPERATOR
  GIRO_INLINE static V float_of(Bits bits) { return __builtin_bit_cast(V, bits); }
  GIRO_INLINE static V all(float x) { return x - V{}; }
  GIRO_INLINE Bits bits(int r) const { return __builtin_bit_cast(Bits, v[r]); }

  GIRO_INLINE friend Pack fma(Pack a, Pack b, Pack c) { GIRO_OF_EACH(multiply_add(a.v[r], b.v[r], c.v[r])); }
  GIRO_INLINE friend Pack fma(Pack a, Pack b, float c) { GIRO_OF_EACH(multiply_add(a.v[r], b.v[r], all(c))); }
  GIRO_INLINE friend Pack fma(Pack a, float b, Pack c) { GIRO_OF_EACH(multiply_add(a.v[r], all(b), c.v[r])); }
  GIRO_INLINE friend Pack fma(Pack a, float b, float c) { GIRO_OF_EACH(multiply_add(a.v[r], all(b), all(c))); }
  GIRO_INLINE friend Pack abs(Pack a) { GIRO_OF_EACH(float_of(a.bits(r) & 0x7fffffff)); }
  GIRO_INLINE friend Pack at_most(Pack a, float most) { GIRO_OF_EACH(all(most) < a.v[r] ? all(most) : a.v[r]); }
  GIRO_INLINE friend Pack at_least(Pack a, float least) { GIRO_OF_EACH(all(least) > a.v[r] ? all(least) : a.v[r]); }
  GIRO_INLINE friend Pack times_two_to(Pack a, Pack n) {
    GIRO_OF_EACH(a.v[r] * float_of(n.bits(r) >> 1 << 23) * float_of((n.bits(r) - (n.bits(r) >> 1)) << 23));
  }
  GIRO_INLINE friend Pack half_of_four_to(Pack n) { GIRO_OF_EACH(float_of(n.bits(r) << 24)); }
  GIRO_INLINE friend Pack with_sign_of(Pack a, Pack b) { GIRO_OF_EACH(float_of(a.bits(r) | (b.bits(r) & 0x80000000))); }
#undef GIRO_OF_EACH
};
#define GIRO_FORMULA GIRO_INLINE
#include "kernels/expr/exponential.h"
#undef GIRO_FORMULA
#undef GIRO_INLINE

// Runs all steps on kRegisters full vectors at a time, from element i on. Returns the first element that is left.
template <int kBytes, int kRegisters>
GIRO_TARGET std::int64_t run_blocks(const ChainStep* steps, std::size_t count, const std::byte* const* tiles,
                                    std::int64_t i, std::int64_t n) {
  using V = typename Vector<kBytes>::type;
  using Bits = typename Vector<kBytes>::bits;
  using M = typename Vector<kBytes>::in_memory;
  using BitsInMemory = typename Vector<kBytes>::bits_in_memory;
  constexpr int kLanes = Vector<kBytes>::kLanes;

#define GIRO_EACH(...) \
  _Pragma("GCC unroll 16") for (int r = 0; r < kRegisters; ++r) { __VA_ARGS__; }
#define GIRO_CASE(CODE, NUMBER, ...) \
  case CODE: {                       \
    NUMBER;                          \
    GIRO_EACH(__VA_ARGS__) break;    \
  }
#define GIRO_UNARY(CODE, ...) GIRO_CASE(Code::CODE, , const V a = x[r]; x[r] = __VA_ARGS__)
#define GIRO_TOGETHER(CODE)                                                           \
  case Code::CODE: {                                                                  \
    constexpr int kTogether = kRegisters < 4 ? kRegisters : 4;                        \
    _Pragma("GCC unroll 16") for (int r = 0; r < kRegisters; r += kTogether) {        \
      using P = Pack<V, Bits, kTogether>;                                             \
      P a;                                                                            \
      _Pragma("GCC unroll 16") for (int k = 0; k < kTogether; ++k) a.v[k] = x[r + k]; \
      a = CODE(a);                                                                    \
      _Pragma("GCC unroll 16") for (int k = 0; k < kTogether; ++k) x[r + k] = a.v[k]; \
    }                                                                                 \
    break;                                                                            \
  }
// The other operand is a tile or a single number, and either the second or the first.
#define GIRO_TILE reinterpret_cast<const M*>(tile)[r]
#define GIRO_CONDITION reinterpret_cast<const BitsInMemory*>(tiles[s->condition] + 4 * i)[r]
#define GIRO_NUMBER(NAME) \
  [[maybe_unused]] const V NAME = *reinterpret_cast<const float*>(tiles[s->operand]) - V {}
#define GIRO_VALUE(NAME) [[maybe_unused]] const V NAME = x[r]
#define GIRO_OF_NUMBER(CODE, ...) GIRO_CASE(Code::CODE + 1, GIRO_NUMBER(b), GIRO_VALUE(a); x[r] = __VA_ARGS__)
#define GIRO_OF_OTHERS(CODE, ...)                                                       \
  GIRO_CASE(Code::CODE, , GIRO_VALUE(a); const V b = GIRO_TILE; x[r] = __VA_ARGS__)     \
  GIRO_CASE(Code::CODE + 2, , const V a = GIRO_TILE; GIRO_VALUE(b); x[r] = __VA_ARGS__) \
  GIRO_CASE(Code::CODE + 3, GIRO_NUMBER(a), GIRO_VALUE(b); x[r] = __VA_ARGS__)
#define GIRO_BINARY(CODE, ...) GIRO_OF_NUMBER(CODE, __VA_ARGS__) GIRO_OF_OTHERS(CODE, __VA_ARGS__)
// If b is a single number other than NaN, this takes one instruction.
#define GIRO_EXTREME(CODE, IS)                                                                                      \
  GIRO_OF_OTHERS(CODE, b != b ? b : (b IS a ? b : a))                                                               \
  case Code::CODE + 1: {                                                                                            \
    GIRO_NUMBER(b);                                                                                                 \
    if (*reinterpret_cast<const float*>(tiles[s->operand]) == *reinterpret_cast<const float*>(tiles[s->operand])) { \
      GIRO_EACH(GIRO_VALUE(a); x[r] = b IS a ? b : a)                                                               \
    } else {                                                                                                        \
      GIRO_EACH(x[r] = b)                                                                                           \
    }                                                                                                               \
    break;                                                                                                          \
  }
#define AS_BITS(A) __builtin_bit_cast(Bits, A)
#define AS_FLOATS(BITS) __builtin_bit_cast(V, BITS)
#define AS_MASK(BITS) AS_FLOATS(Bits(BITS))

  for (; i + kRegisters * kLanes <= n; i += kRegisters * kLanes) {
    V x[kRegisters] = {};
    for (const ChainStep* s = steps; s != steps + count; ++s) {
      const std::byte* const tile = tiles[s->operand] + 4 * i;
      switch (s->code) {
#include "kernels/cpu/chain_codes.h"
        GIRO_UNARY(to_bf16, to_bf16(a, AS_BITS(a)))
        GIRO_UNARY(to_f16, to_f16(a, AS_BITS(a)))
        GIRO_CASE(Code::load, , x[r] = GIRO_TILE)
        GIRO_CASE(Code::load + 1, GIRO_NUMBER(b), x[r] = b)
        GIRO_BINARY(where, GIRO_CONDITION != 0 ? a : b)
        GIRO_CASE(Code::store, , reinterpret_cast<M*>(const_cast<std::byte*>(tile))[r] = x[r])
        GIRO_CASE(Code::stream, , stream<kBytes>(const_cast<std::byte*>(tile) + r * kBytes, x[r]))
        case Code::sum: {
          constexpr int kVectors = static_cast<int>(cpu::kLanes) / kLanes;
          M* const lanes = reinterpret_cast<M*>(const_cast<std::byte*>(tiles[s->operand]));
          if constexpr (kRegisters % kVectors == 0) {
            V sums[kVectors];
            _Pragma("GCC unroll 16") for (int l = 0; l < kVectors; ++l) sums[l] = lanes[l];
            GIRO_EACH(sums[r % kVectors] += x[r])
            _Pragma("GCC unroll 16") for (int l = 0; l < kVectors; ++l) lanes[l] = sums[l];
          } else {
            GIRO_EACH(lanes[(i / kLanes + r) % kVectors] += x[r])
          }
          break;
        }
#define GIRO_AHEAD(PART)                                                                                        \
  case Code::ahead + PART: {                                                                                    \
    constexpr int kBegin = PART * kRegisters / kPrefetchParts, kEnd = (PART + 1) * kRegisters / kPrefetchParts; \
    for (int r = kBegin; r < kEnd; ++r) __builtin_prefetch(tile + kAhead + r * kBytes, 0, 3);                   \
    break;                                                                                                      \
  }
          GIRO_AHEAD(0)
          GIRO_AHEAD(1)
          GIRO_AHEAD(2)
          GIRO_AHEAD(3)
        default:
          __builtin_unreachable();
      }
    }
  }
#undef GIRO_AHEAD
#undef AS_MASK
#undef AS_FLOATS
#undef AS_BITS
#undef GIRO_TOGETHER
#undef GIRO_EXTREME
#undef GIRO_BINARY
#undef GIRO_OF_OTHERS
#undef GIRO_OF_NUMBER
#undef GIRO_VALUE
#undef GIRO_NUMBER
#undef GIRO_CONDITION
#undef GIRO_TILE
#undef GIRO_UNARY
#undef GIRO_CASE
#undef GIRO_EACH
  return i;
}

GIRO_TARGET void run(const ChainStep* steps, std::size_t count, const std::byte* const* tiles, std::int64_t n) {
  std::int64_t i = run_blocks<kVector, kRegisters>(steps, count, tiles, 0, n);
  i = run_blocks<kVector, 4>(steps, count, tiles, i, n);
  i = run_blocks<kVector, 1>(steps, count, tiles, i, n);
  run_blocks<4, 1>(steps, count, tiles, i, n);
}
