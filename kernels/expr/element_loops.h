#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <giro/runtime/dtype.h>

#include "kernels/expr/arithmetic.h"
#include "kernels/expr/instruction_sets.h"
#include "kernels/expr/math.h"
#include "kernels/expr/random_by_key.h"

namespace giro::expr {

// The dtypes that a function takes. All inputs have one dtype, except that the first input of `select` is boolean.
enum class Takes : std::uint8_t {
  floating,  // f32, bf16, f16, f64
  numbers,   // floating and i32, i64, u8
  integers,  // i32, i64, u8
  i64,
  any,  // numbers and boolean
  boolean,
  select  // boolean, any, any
};

// Applies a scalar function to arrays of n elements. `out` may be one of `in` if their elements have the same size.
using Loop = void (*)(const void* const* in, void* out, std::int64_t n);

// A function's loops, by the dtype in which its inputs are computed (for `select`, the last input); null for a dtype
// that it does not take.
struct Loops {
  std::array<PerInstructionSet<Loop>, 8> of_dtype{};

  Loop get(DType computed) const { return of_dtype[static_cast<std::size_t>(computed)].get(); }
};

// Applies Code::value to arrays of T, except that the first is of A.
template <class Code, int kInputs, class A, class T>
struct CodeLoop {
  GIRO_LOOP_INLINE static void run(const void* const* in, void* out, std::int64_t n) {
    const A* const a = static_cast<const A*>(in[0]);
    const T* const b = static_cast<const T*>(in[kInputs > 1 ? 1 : 0]);
    const T* const c = static_cast<const T*>(in[kInputs > 2 ? 2 : 0]);
    using Result = decltype(Code::template value<T>(A{}, T{}, T{}));
    constexpr bool kGivesFloat = std::is_integral_v<T> && std::is_floating_point_v<Result>;
    using Stored = std::conditional_t<std::is_same_v<Result, bool> || kGivesFloat, Result, T>;
    Stored* const y = static_cast<Stored*>(out);
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) {
      y[i] = static_cast<Stored>(Code::template value<T>(a[i], kInputs > 1 ? b[i] : T{}, kInputs > 2 ? c[i] : T{}));
    }
  }
};

namespace math {
struct uniform_by_key_code;
}
template <>
struct CodeLoop<math::uniform_by_key_code, 2, std::int64_t, std::int64_t> : math::UniformLoop {};

template <class Code, int kInputs, Takes kTakes, class... T>
constexpr void add_loops(Loops& loops) {
  ((loops.of_dtype[static_cast<std::size_t>(dtype_of<T>)] =
        Compiled<CodeLoop<Code, kInputs, std::conditional_t<kTakes == Takes::select, bool, T>, T>>::all),
   ...);
}

template <class Code, int kInputs, Takes kTakes>
constexpr Loops loops_of() {
  constexpr bool kAny = kTakes == Takes::any || kTakes == Takes::select;
  Loops loops;
  if constexpr (kAny || kTakes == Takes::floating || kTakes == Takes::numbers) {
    add_loops<Code, kInputs, kTakes, float, double>(loops);
  }
  if constexpr (kAny || kTakes == Takes::integers || kTakes == Takes::numbers) {
    add_loops<Code, kInputs, kTakes, std::int32_t, std::int64_t, std::uint8_t>(loops);
  }
  if constexpr (kTakes == Takes::i64) add_loops<Code, kInputs, kTakes, std::int64_t>(loops);
  if constexpr (kAny || kTakes == Takes::boolean) add_loops<Code, kInputs, kTakes, bool>(loops);
  return loops;
}

}  // namespace giro::expr
