#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <giro/runtime/dtype.h>

#include "kernels/expr/arithmetic.h"
#include "kernels/expr/instruction_sets.h"
#include "kernels/expr/math.h"
#include "kernels/expr/random_by_key.h"

namespace giro::nn {
struct Operand;
class Var;
}  // namespace giro::nn

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

// Whether inputs may have the dtype; those of `select` after the first.
constexpr bool takes(Takes set, DType dtype) {
  switch (set) {
    case Takes::floating:
      return is_floating(dtype);
    case Takes::numbers:
      return dtype != DType::boolean;
    case Takes::integers:
      return !is_floating(dtype) && dtype != DType::boolean;
    case Takes::i64:
      return dtype == DType::i64;
    case Takes::boolean:
      return dtype == DType::boolean;
    case Takes::any:
    case Takes::select:
      return true;
  }
  return false;
}

// Applies a scalar function to arrays of n elements. `out` may be one of `in` if their elements have the same size.
using Loop = void (*)(const void* const* in, void* out, std::int64_t n);

// A function's loops, by the dtype in which its inputs are computed (for `select`, the last input); null for a dtype
// that it does not take.
struct Loops {
  std::array<PerInstructionSet<Loop>, 8> of_dtype{};

  Loop get(DType computed) const { return of_dtype[static_cast<std::size_t>(computed)].get(); }
};

// The dtype in which values are computed: f32 for bf16 and f16, rounded where a store would round them.
constexpr DType computed_in(DType dtype) { return is_16_bit(dtype) ? DType::f32 : dtype; }

enum class Gives : std::uint8_t { same, boolean, f32 };

// The gradient of the loss with respect to one input, given the inputs, the result y, and the gradient dy with respect
// to y.
using ScalarGradient = nn::Var (*)(const nn::Operand& a, const nn::Operand& b, const nn::Operand& c, const nn::Var& y,
                                   const nn::Var& dy);

// A function of up to three numbers: a line of the table in scalar_functions.h, or a custom one.
struct ScalarFunction {
  struct Rules {
    Takes takes = Takes::floating;
    Gives gives = Gives::same;
    std::array<ScalarGradient, 3> gradients = {};  // null if there is none, as for a comparison
    // The range from which the function's test draws each input; the function is smooth within it.
    std::array<std::pair<double, double>, 3> domain = {{{-4, 4}, {-4, 4}, {-4, 4}}};
    bool is_exact = false;  // the result needs no rounding to 16 bits

    // The dtype of the result for inputs of that dtype.
    constexpr DType result(DType inputs) const {
      return gives == Gives::boolean ? DType::boolean : gives == Gives::f32 ? DType::f32 : inputs;
    }
  };

  const char* name;
  int inputs;
  const char* source;  // for CUDA: an expression of a, b and c of type T
  Loops loops;         // for the CPU
  Rules rules;
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

template <class Code, int kInputs, Takes kTakes>
constexpr Loops loops_of() {
  Loops loops;
  const auto add = [&]<class T>(T) {
    if constexpr (takes(kTakes, dtype_of<T>)) {
      using First = std::conditional_t<kTakes == Takes::select, bool, T>;
      loops.of_dtype[static_cast<std::size_t>(dtype_of<T>)] = Compiled<CodeLoop<Code, kInputs, First, T>>::all;
    }
  };
  add(float{}), add(double{}), add(std::int32_t{}), add(std::int64_t{}), add(std::uint8_t{}), add(bool{});
  return loops;
}

}  // namespace giro::expr

// A ScalarGradient, as an expression of a, b, c, y and dy.
#define GIRO_GRADIENT(...)                                                                          \
  +[]([[maybe_unused]] const ::giro::nn::Operand& a, [[maybe_unused]] const ::giro::nn::Operand& b, \
      [[maybe_unused]] const ::giro::nn::Operand& c, [[maybe_unused]] const ::giro::nn::Var& y,     \
      [[maybe_unused]] const ::giro::nn::Var& dy) -> ::giro::nn::Var { return __VA_ARGS__; }

// Defines giro::expr::functions::NAME. CODE is an expression in a, b and c of type T. It is compiled as C++ for
// the CPU and by NVRTC for a GPU; both provide the functions of math.h. The remaining arguments are the Rules:
//
//   GIRO_SCALAR_FUNCTION(softsign, 1, a / (T(1) + abs(a)), {.gradients = {GIRO_GRADIENT(dy / square(1 + abs(a)))}})
#define GIRO_SCALAR_FUNCTION(NAME, INPUTS, CODE, ...)                                                                  \
  namespace giro::expr::math {                                                                                         \
  struct NAME##_code {                                                                                                 \
    template <class T, class A>                                                                                        \
    GIRO_LOOP_INLINE static auto value([[maybe_unused]] A a, [[maybe_unused]] T b, [[maybe_unused]] T c) {             \
      return CODE;                                                                                                     \
    }                                                                                                                  \
  };                                                                                                                   \
  }                                                                                                                    \
  namespace giro::nn {                                                                                                 \
  constexpr ::giro::expr::ScalarFunction::Rules NAME##_rules = [] {                                                    \
    using namespace ::giro::expr;                                                                                      \
    return ScalarFunction::Rules __VA_ARGS__;                                                                          \
  }();                                                                                                                 \
  }                                                                                                                    \
  namespace giro::expr::functions {                                                                                    \
  extern constinit const ::giro::expr::ScalarFunction NAME = {                                                         \
      #NAME, INPUTS, #CODE, ::giro::expr::loops_of<::giro::expr::math::NAME##_code, INPUTS, nn::NAME##_rules.takes>(), \
      nn::NAME##_rules};                                                                                               \
  }
