#pragma once

#include <optional>
#include <utility>
#include <vector>

#include <giro/kernels/nn/var.h>

namespace giro::nn {

// A value of that shape with these parts, where they do not overlap and are all of it. Sorts them.
std::optional<Var> put_together(std::vector<std::pair<Part, Var>>& parts, const Shape& shape);

// A value of that shape that is 0 beside this part.
Var spread(const Var& x, const Part& part, const Shape& shape);

}  // namespace giro::nn
