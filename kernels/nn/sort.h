#pragma once

#include <cstdint>

#include <giro/kernels/nn/operand.h>

namespace giro::nn {

// Sorting along an axis; a negative axis counts from the end. Values of any dtype. Equal elements keep their order, NaN
// is larger than every number. Gradients flow to the elements that were taken.
// Errors: invalid_argument for an axis that does not exist.

// From the smallest element to the largest.
Var sort(const Operand& x, int axis = -1);
// The indices along the axis in that order, i64, of x's shape.
Var argsort(const Operand& x, int axis = -1);

// The k largest elements along the last axis, largest first, and their indices, i64; both (..., k). Among equal
// elements, the one with the lower index comes first. Error(invalid_argument) unless 0 <= k <= the size of the axis.
struct TopK {
  Var values, indices;
};
TopK top_k(const Operand& x, std::int64_t k);

}  // namespace giro::nn
