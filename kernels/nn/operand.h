#pragma once

#include <concepts>
#include <cstdint>
#include <source_location>
#include <utility>

#include <giro/kernels/nn/var.h>

namespace giro::nn {

using Where = std::source_location;

// An argument of an op, with its source line: a value or a number. A number takes the dtype of the values it is
// combined with. A floating-point number, even 2.0, converts integers to f32.
struct Operand {
  Operand(Var value, Where line = Where::current()) : var(std::move(value)), where(line) {}
  Operand(const Tensor& value, Where line = Where::current()) : var(value), where(line) {}
  template <std::floating_point T>
  Operand(T value, Where line = Where::current())
      : number(static_cast<double>(value)), is_number(true), is_fraction(true), where(line) {}
  template <std::integral T>
  Operand(T value, Where line = Where::current())
      : number(static_cast<double>(value)), integer(static_cast<std::int64_t>(value)), is_number(true), where(line) {}

  Var var;
  double number = 0;
  std::int64_t integer = 0;  // exact, for an integer
  bool is_number = false, is_fraction = false;
  Where where;
};

}  // namespace giro::nn
