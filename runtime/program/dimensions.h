#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <giro/runtime/tensor.h>

namespace giro::detail {

// The dimensions of an op's arguments, in the notation of einsum: which of their axes are the same.
//
//   "bi, io, o -> bo"                    dense: x, w, b -> y; i, which is on the left alone, is summed over
//   "n[h][w](gc), (go)[k][l]c -> ..."    a letter in brackets must be whole to compute any of the result; an axis in
//                                        parentheses is made of several dimensions, the first one slowest
//   "...mk, ...kn -> ...mn"              any number of axes, which broadcast
//   "_, r -> r,"                         an argument of any shape, and at the end a scalar
//
// First the Ins, then the Outs and InOuts, each in the order of the op's fields; an argument may be omitted.

// What does not fit, e.g. "i is 4 in f32(4, 5), and i is 3 in f32(2, 3)"; nullopt if all do.
// Error(invalid_argument) for a line with another number of arguments, or without an arrow.
std::optional<std::string> unfitting(std::string_view line, const std::vector<Tensor>& reads,
                                     const std::vector<Tensor>& writes);

}  // namespace giro::detail
