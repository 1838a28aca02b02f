#pragma once

#include <cstddef>
#include <vector>

#include <giro/kernels/nn/operand.h>
#include <giro/runtime/dtype.h>
#include <giro/runtime/shape.h>

namespace giro::pointwise {

// Error(invalid_argument) for a number, where an op needs a value.
void expect_value(const char* op, const nn::Operand& x);

// Error(invalid_argument) for one that an integer dtype would wrap.
void expect_fits(const char* op, double number, DType dtype);

// Error(shape_mismatch) for a shape that does not broadcast to another.
void expect_broadcasts(const char* op, const Shape& from, const Shape& to);

// What two dtypes become together.
DType promoted(DType a, DType b);

// The axes, counted from the front; a negative one is given from the end. Error(invalid_argument) for one that is not
// there or is named twice.
std::vector<std::size_t> checked_axes(const char* op, const Shape& shape, const std::vector<int>& axes);

}  // namespace giro::pointwise
