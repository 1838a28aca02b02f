#pragma once

#include <string>
#include <string_view>

#include "kernels/expr/expression.h"

namespace giro::cuda {

// The prelude's names (expression_prelude.h) for the types that a dtype is computed in and stored as.
std::string_view value_type(DType dtype);
std::string_view storage_type(DType dtype);

// The constant as source text.
std::string literal(const expr::Instruction& constant);

// The name and the definition of a function with inputs of that dtype. A program may contain the definition more than
// once.
std::string function_name(const expr::ScalarFunction& function, DType inputs);
std::string function_definition(const expr::ScalarFunction& function, DType inputs);

}  // namespace giro::cuda
