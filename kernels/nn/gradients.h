#pragma once

#include <optional>
#include <utility>
#include <vector>

#include <giro/kernels/nn/var.h>

#include "runtime/throw_error.h"

namespace giro::nn {

// An uninitialized gradient of the loss with respect to `input`, for a kernel to compute. It cannot be differentiated.
inline Var gradient_like(const char* op, const Var& input, DType dtype, const std::vector<Var>& from) {
  return Var::computed(dtype, input.shape(), from, [op](const Var&, const Var&, const std::vector<Var>&) -> Gradients {
    throw_error(ErrorCode::unsupported, "{}: its gradient cannot be differentiated again", op);
  });
}

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
