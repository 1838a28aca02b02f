#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include <giro/runtime/dtype.h>

#include "kernels/expr/element_loops.h"

namespace giro::nn {
struct Operand;
class Var;
}  // namespace giro::nn

namespace giro::expr {

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
