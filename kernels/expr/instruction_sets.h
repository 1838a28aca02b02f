#pragma once

#include <array>
#include <cstddef>

#define GIRO_LOOP_INLINE inline __attribute__((always_inline))

// Loops are compiled for each of these instruction sets and chosen at run time, unless everything is compiled for one
// machine or for a sanitizer.
#if defined(__x86_64__) && !GIRO_ONE_INSTRUCTION_SET
#define GIRO_AVX2 __attribute__((target("avx2,fma")))
#define GIRO_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma" GIRO_WIDE)))
#else
#define GIRO_AVX2
#define GIRO_AVX512
#endif
#ifdef __clang__
#define GIRO_WIDE
#else
#define GIRO_WIDE ",prefer-vector-width=512"
#endif

namespace giro::expr {

enum InstructionSet : std::size_t { kBaseline, kAvx2, kAvx512, kInstructionSets };

// The best one that this machine has, or the one set with use_instruction_set.
InstructionSet instruction_set();
// For tests. Returns whether the machine has it. If so, everything prepared from now on uses it.
bool use_instruction_set(InstructionSet set);

// One function per instruction set.
template <class F>
struct PerInstructionSet {
  std::array<F, kInstructionSets> of{};

  F get() const { return of[instruction_set()]; }
};

// Body::run compiled for each instruction set. It must be GIRO_LOOP_INLINE, and so must everything it calls
// that a compiler might not inline by itself.
template <class Body, class F = decltype(&Body::run)>
struct Compiled;
template <class Body, class... A>
struct Compiled<Body, void (*)(A...)> {
  static void baseline(A... a) { Body::run(a...); }
#if defined(__x86_64__) && !GIRO_ONE_INSTRUCTION_SET
  GIRO_AVX2 static void avx2(A... a) { Body::run(a...); }
  GIRO_AVX512 static void avx512(A... a) { Body::run(a...); }
  static constexpr PerInstructionSet<void (*)(A...)> all{{ &baseline, &avx2, &avx512 }};
#else
  static constexpr PerInstructionSet<void (*)(A...)> all{{&baseline, &baseline, &baseline}};
#endif
};

}  // namespace giro::expr
