#pragma once

#include <string_view>
#include <vector>

#include <giro/kernels/nn/operand.h>
#include <giro/kernels/nn/var.h>

namespace giro::nn {

// Sums of products by Einstein's convention, as in NumPy: einsum("bthd,bshd->bhts", {q, k}). Each operand's axes are
// named by letters; axes of the same letter are multiplied element by element, and those that the result lacks are
// summed. "..." stands for any further axes, which broadcast. Without "->", the result has "..." and then the letters
// that occur once, in alphabetical order. More than two operands are contracted from left to right, each pair as one
// matrix product where possible. Operands are f32, bf16 or f16; they are converted to the widest dtype, which is also
// the result's. A letter may not name two axes of one operand.
// Errors, which name the equation: invalid_argument for a malformed equation or a wrong number of operands;
// shape_mismatch for a wrong number of axes or sizes that differ; dtype_mismatch.
Var einsum(std::string_view equation, const std::vector<Var>& operands, Where where = Where::current());

}  // namespace giro::nn
