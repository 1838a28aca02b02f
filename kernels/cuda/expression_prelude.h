#pragma once

#include <string_view>

namespace giro::cuda {

// CUDA C++ that starts the source of every expression: storage types, value types, packs of elements, and the names
// that scalar functions may use in addition to those of math.h. It may appear in a program more than once.
std::string_view expression_prelude();

// The same for reductions, to be appended to it.
//
// A row is reduced by a binary tree over units of 8 elements. Elements of a unit are taken in order. Neighbouring units
// are joined to 2 units, these to 4, and so on. Sums and products of floats are computed in the elements' type up to
// 1024 elements, and in double from there on. Units beyond the end of the row do not count. The order thus depends on
// the row's length alone, not on which threads, blocks and kernels compute the parts.
std::string_view reduction_prelude();

}  // namespace giro::cuda
