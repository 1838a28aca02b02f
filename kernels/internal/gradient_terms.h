#pragma once

#include <optional>
#include <utility>
#include <vector>

#include <giro/kernels/nn/var.h>

namespace giro::nn {

// The gradient of a value while its terms come in. Those by parts of it wait for each other: where they make up the
// whole, as those of an LSTM's gates do, they are put together, not padded and added.
class GradientTerms {
 public:
  // `is_of_leaf`: a sum is an op of its own, for which there are rules, rather than part of an expression.
  void add(const Var& term, const std::optional<Part>& part, bool is_of_leaf);
  // Of a value of that shape.
  Var sum(const Shape& shape, bool is_of_leaf);

 private:
  std::optional<Var> whole_;
  std::vector<std::pair<Part, Var>> parts_;
};

}  // namespace giro::nn
