#pragma once

#include <string_view>

namespace giro::cuda {

// CUDA C++ that the source of every expression begins with: what memory holds and what is computed with, packs of
// elements, the names that scalar functions may use besides math.h's. It may stand in a program more than once.
std::string_view expression_prelude();

// The same for reductions, after it.
//
// What a row comes to is a binary tree over units of 8 elements, which are taken one after the other: neighbours are
// joined to 2 units, those to 4, and so on, up to 1024 elements in the type of the elements, from there on in double
// for sums and products of floats. Units beyond the row count for nothing. So the order follows from the row's length
// alone, whichever threads, blocks and kernels compute the parts.
std::string_view reduction_prelude();

}  // namespace giro::cuda
