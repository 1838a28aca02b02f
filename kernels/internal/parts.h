#pragma once

#include <optional>
#include <utility>
#include <vector>

#include <giro/kernels/nn/var.h>

namespace giro::nn {

// The value that these parts make up, or nullopt unless they tile the shape along one axis, contiguous or interleaved.
// Sorts the parts.
std::optional<Var> assemble(std::vector<std::pair<Part, Var>>& parts, const Shape& shape);

// A value of the shape with x at `part` and 0 elsewhere.
Var zero_pad(const Var& x, const Part& part, const Shape& shape);

}  // namespace giro::nn
