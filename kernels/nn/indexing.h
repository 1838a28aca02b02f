#pragma once

#include <cstdint>

#include <giro/kernels/nn/operand.h>
#include <giro/runtime/dtype.h>
#include <giro/runtime/stream.h>

namespace giro::nn {

// Reading and adding by index. Indices are u8, i32 or i64, and count from 0: unlike in NumPy, a negative one is out of
// range. An index out of range reads NaN, or 0 for dtypes without NaN. Gradients flow to the values and are summed in
// an order that depends on the indices alone. In take and embedding, an index out of range is also an
// Error(invalid_argument), thrown when the host next waits for the stream or reads the step's logs; it names the first
// such position, the index, the call of the step, and the line that called the function.
// Errors: dtype_mismatch, shape_mismatch; invalid_argument for an axis that does not exist.

// The elements of x at these indices along an axis, as numpy.take. The shape of indices replaces the axis.
Var take(const Operand& x, const Var& indices, int axis = 0);
// The rows of a table (V, D) for ids of any shape: (..., D).
Var embedding(const Var& ids, const Var& table, Where where = Where::current());
// y[..., j, ...] = x[..., indices[..., j, ...], ...] along an axis. indices has x's shape except for the size of the
// axis; the result has the shape of indices.
Var take_along_axis(const Operand& x, const Var& indices, int axis);
// x (N, ...) with updates added: row indices[i] gets updates[i]. indices has any shape (I...), updates is (I..., ...);
// the result has x's shape and dtype, with one rounding per element for the sum of its updates and one for the result.
// An index out of range makes the whole result NaN; for integers its update is left out.
Var scatter_add(const Operand& x, const Var& indices, const Var& updates);

// 1 where the index along the new last axis equals the value, else 0; for a value out of range all are 0. (..., depth).
Var one_hot(const Var& indices, std::int64_t depth, DType dtype = DType::f32, Where where = Where::current());
// 0, 1, ..., count - 1. Error(invalid_argument) for a negative count or numbers that an integer dtype cannot hold.
Var arange(std::int64_t count, const Stream& stream, DType dtype = DType::i64, Where where = Where::current());

}  // namespace giro::nn
