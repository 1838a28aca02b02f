#pragma once

#include <cstddef>
#include <vector>

#include <giro/kernels/nn/operand.h>
#include <giro/runtime/dtype.h>
#include <giro/runtime/shape.h>

namespace giro::pointwise {

// Error(invalid_argument) for a number, if an op needs a value.
void expect_value(const char* op, const nn::Operand& x);

// Error(invalid_argument) for a number that an integer dtype would wrap.
void expect_fits(const char* op, double number, DType dtype);

// An integer or an integer scalar. Error(invalid_argument) for another number, Error(dtype_mismatch) or
// Error(shape_mismatch) for another value; `what` says what it is for.
void expect_scalar(const char* op, const char* what, const nn::Operand& x);
// An integer or an i64 scalar. Errors as above.
void expect_key(const char* op, const nn::Operand& key);

// Error(shape_mismatch) for a shape that does not broadcast to another.
void expect_broadcasts(const char* op, const Shape& from, const Shape& to);

// The dtype that values of two dtypes are converted to when combined.
DType promoted(DType a, DType b);

// The axes, counted from the front; negative ones count from the end. Error(invalid_argument) for an axis that does not
// exist or is named twice.
std::vector<std::size_t> checked_axes(const char* op, const Shape& shape, const std::vector<int>& axes);

}  // namespace giro::pointwise
