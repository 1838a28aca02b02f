#pragma once

#include <optional>
#include <utility>
#include <vector>

#include <giro/kernels/nn/var.h>

namespace giro::nn {

// Accumulates the terms of a value's gradient. Terms for parts of the value are collected first. If they make up the
// whole, like the gates of an LSTM, they are concatenated instead of padded and added.
class GradientTerms {
 public:
  // `is_of_leaf`: adds with a separate op, which rules can match, instead of as part of an expression.
  void add(const Var& term, const std::optional<Part>& part, bool is_of_leaf);
  // The sum. `shape`: the value's.
  Var sum(const Shape& shape, bool is_of_leaf);

 private:
  std::optional<Var> whole_;
  std::vector<std::pair<Part, Var>> parts_;
};

}  // namespace giro::nn
