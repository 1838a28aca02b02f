#pragma once

#include <concepts>
#include <source_location>
#include <utility>

#include <giro/kernels/nn/var.h>

namespace giro::nn {

using Where = std::source_location;

// An argument of an op, with the line that it stands on: a value, or a number, which takes the dtype of the values that
// it is combined with; a number with a fraction makes integers f32.
struct Operand {
  Operand(Var value, Where line = Where::current()) : var(std::move(value)), where(line) {}
  Operand(const Tensor& value, Where line = Where::current()) : var(value), where(line) {}
  template <std::floating_point T>
  Operand(T value, Where line = Where::current())
      : number(static_cast<double>(value)), is_number(true), has_fraction(true), where(line) {}
  template <std::integral T>
  Operand(T value, Where line = Where::current()) : number(static_cast<double>(value)), is_number(true), where(line) {}

  Var var;
  double number = 0;
  bool is_number = false, has_fraction = false;
  Where where;
};

}  // namespace giro::nn
