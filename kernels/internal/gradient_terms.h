#pragma once

#include <optional>
#include <utility>
#include <vector>

#include <giro/kernels/nn/var.h>

namespace giro::nn {

// The gradient of a value, while its terms arrive. Terms for parts of the value are collected first. If they make up
// the whole, like those of an LSTM's gates, they are concatenated, not padded and added.
class GradientTerms {
 public:
  // `is_of_leaf`: adds with a separate op, which rules can match, not as part of an expression.
  void add(const Var& term, const std::optional<Part>& part, bool is_of_leaf);
  // The sum, for a value of that shape.
  Var sum(const Shape& shape, bool is_of_leaf);

 private:
  std::optional<Var> whole_;
  std::vector<std::pair<Part, Var>> parts_;
};

}  // namespace giro::nn
