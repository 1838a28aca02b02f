#include "kernels/internal/gradient_terms.h"

#include <algorithm>

#include <giro/kernels/elementwise.h>
#include <giro/kernels/nn/elementwise.h>
#include <giro/kernels/nn/slice.h>

#include "kernels/internal/parts.h"

namespace giro::nn {
namespace {

Var sum_of(const Var& a, const Var& b, bool is_of_leaf) {
  if (!is_of_leaf) return a + b;
  Var y = Var::computed(a.dtype(), a.shape(), {a, b}, [](const Var&, const Var& dy, const std::vector<Var>&) {
    return Gradients{dy, dy};
  });
  giro::add(y.value(), a.value(), b.value(), y.stream());
  return y;
}

}  // namespace

void GradientTerms::add(const Var& term, const std::optional<Part>& part, bool is_of_leaf) {
  if (!part) {
    whole_ = whole_ ? sum_of(*whole_, term, is_of_leaf) : term;
    return;
  }
  const auto same = std::find_if(parts_.begin(), parts_.end(), [&](const auto& other) {
    return other.first == *part && other.second.shape() == term.shape();
  });
  if (same != parts_.end()) {
    same->second = same->second + term;
  } else {
    parts_.emplace_back(*part, term);
  }
}

Var GradientTerms::sum(const Shape& shape, bool is_of_leaf) {
  if (std::optional<Var> together = assemble(parts_, shape)) {
    parts_.clear();
    add(*together, std::nullopt, is_of_leaf);
  }
  for (const auto& [part, term] : std::exchange(parts_, {})) add(zero_pad(term, part, shape), std::nullopt, is_of_leaf);
  return *std::exchange(whole_, std::nullopt);
}

}  // namespace giro::nn
