#pragma once

#include <string>
#include <string_view>

#include "kernels/pointwise/expression.h"

namespace giro::cuda {

// The names that the prelude (expression_prelude.h) gives to what a dtype is computed in and stored as.
std::string_view value_type(DType dtype);
std::string_view storage_type(DType dtype);

// A constant of the source.
std::string literal(const pointwise::Instruction& constant);

// What a function of the given dtype of inputs is called by, and its definition, which may stand in a program more
// than once.
std::string function_name(const pointwise::ScalarFunction& function, DType inputs);
std::string function_definition(const pointwise::ScalarFunction& function, DType inputs);

// Hexadecimal digits that stand for a text.
std::string digits_of(std::string_view text);

}  // namespace giro::cuda
