#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <giro/kernels/nn/operand.h>
#include <giro/runtime/dtype.h>
#include <giro/runtime/shape.h>

#include "runtime/call_site.h"

namespace giro::nn {

// Throws Error(invalid_argument).
[[noreturn]] void reject(const char* op, const std::string& found, const char* expected);

// Throws Error(invalid_argument) for a number, where an op needs a value.
void expect_value(const char* op, const Operand& x);

// A CallSite at the value's line that also expects a value, as expect_value does.
struct ValueCall : detail::CallSite {
  ValueCall(const char* op, const Operand& x) : CallSite(x.where) { expect_value(op, x); }
};

// Throws Error(invalid_argument) for a number out of the range of an integer dtype.
void expect_fits(const char* op, double number, DType dtype);

// Expects an integer or an integer scalar; `what` names its role. Throws Error(invalid_argument) for another number,
// Error(dtype_mismatch) or Error(shape_mismatch) for another value.
void expect_scalar(const char* op, const char* what, const Operand& x);
// Expects an integer or an i64 scalar. Errors as above.
void expect_key(const char* op, const Operand& key);

// Throws Error(shape_mismatch) if `from` does not broadcast to `to`.
void expect_broadcasts(const char* op, const Shape& from, const Shape& to);

// The values among the operands.
std::vector<Var> values_of(const std::vector<Operand>& operands);

// The dtype to which values of two dtypes are converted when combined.
DType promoted(DType a, DType b);

// The axes, counted from the front; negative ones count from the end. Throws Error(invalid_argument) for an axis that
// does not exist or is named twice.
std::vector<std::size_t> checked_axes(const char* op, const Shape& shape, const std::vector<int>& axes);

}  // namespace giro::nn
