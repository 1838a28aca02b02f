#pragma once

#include <vector>

#include "tests/kernels/expr/expression_case.h"

namespace giro::test {

// Every kind of instruction, dtype, layout and pattern of reduction.
std::vector<ExpressionCase> pointwise_cases();
std::vector<ExpressionCase> layout_cases();
std::vector<ExpressionCase> row_cases();
std::vector<ExpressionCase> column_cases();
std::vector<ExpressionCase> long_cases();  // rows that several blocks share

}  // namespace giro::test
