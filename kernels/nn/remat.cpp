#include <giro/kernels/nn/remat.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include <giro/runtime/step_context.h>

#include "runtime/throw_error.h"

namespace giro::nn {

Var remat(std::function<Var(const Var&)> f, const Var& x) {
  if (!f) throw_invalid("remat: the function is empty");
  const std::uint64_t since = Var::next_number();
  const Var y = f(x);
  if (!y.requires_grad() || y.node_->number < since) return y;

  Var result(y.value(), y.node_->storage);
  Var::Node& node = *result.node_;
  node.stream = y.node_->stream;
  node.math = y.node_->math;
  node.grad_dtype = y.node_->grad_dtype;
  node.requires_grad = true;
  node.inputs = Var::created_before(since, y);
  node.gradient = [f = std::move(f), x](const Var&, const Var& dy, const std::vector<Var>& in) {
    const bool is_kept = detail::StepScope::current().keeps_gradients;
    const std::uint64_t again_since = Var::next_number();
    const Var again = [&] {
      detail::StepScope step;
      step.keeps_gradients = true;
      return f(x);
    }();
    const std::vector<Var> inputs = Var::created_before(again_since, again);
    if (!std::ranges::equal(inputs, in, {}, &Var::node_, &Var::node_)) {
      throw_invalid(
          "remat: called again by the backward pass, the function's result depends on {} parameters "
          "and values that require a gradient; expected the same {} as in its first call",
          inputs.size(), in.size());
    }
    std::vector<Var> terms(in.size());
    // A parameter that f itself creates gets its gradient right away.
    const auto done = [&](const Var::Pairs& complete) {
      for (const auto& [input, term] : complete) {
        const auto at = std::ranges::find(in, input.node_, &Var::node_);
        if (at == in.end()) {
          input.set_gradient(term);
        } else {
          terms[static_cast<std::size_t>(at - in.begin())] = term;
        }
      }
    };
    Var::differentiate(again, dy, {.created_before = again_since, .done = done, .keep = is_kept});
    return terms;
  };
  return result;
}

Layer remat(Layer layer) {
  if (layer.inputs() != 1) {
    throw_error(ErrorCode::unsupported, "remat: the layer '{}' takes {} values, expected one", layer.name(),
                layer.inputs());
  }
  return layer.with([layer](Scope& s, const Var& x) {
    // The first call uses the scope itself, later calls a copy that gives the same results.
    const auto calls = std::make_shared<std::pair<Scope, bool>>(s.again(), true);
    return remat(
        [layer, s, calls](const Var& h) {
          Scope scope = std::exchange(calls->second, false) ? s : calls->first.again();
          std::vector<Var> results = layer.apply(scope, {h}, std::source_location());
          if (results.size() == 1) return std::move(results.front());
          throw_error(ErrorCode::unsupported, "remat: the layer '{}' returns {} values, expected one", layer.name(),
                      results.size());
        },
        x);
  });
}

}  // namespace giro::nn
