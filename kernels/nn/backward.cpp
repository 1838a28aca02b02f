#include <giro/kernels/nn/var.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <giro/kernels/nn/elementwise.h>
#include <giro/kernels/nn/functional.h>
#include <giro/runtime/step_context.h>

#include "kernels/elementwise.h"
#include "kernels/nn/gradients.h"
#include "runtime/call_site.h"
#include "runtime/throw_error.h"

namespace giro::nn {

std::vector<Var> Var::created_before(std::uint64_t since, const Var& y) {
  if (!y.requires_grad()) return {};
  std::vector<Var> found, reached{y};
  std::unordered_set<const Node*> seen{y.node_.get()};
  while (!reached.empty()) {
    const Var var = std::move(reached.back());
    reached.pop_back();
    if (var.node_->number < since) {
      found.push_back(var);
      continue;
    }
    for (const Var& input : var.node_->inputs) {
      if (input.requires_grad() && seen.insert(input.node_.get()).second) reached.push_back(input);
    }
  }
  return found;
}

namespace {

// Whether a term for a part has a shape that fits the part and the whole.
bool lies_in(const Shape& term, const Part& part, const Shape& whole) {
  if (term.rank() != whole.rank() || part.axis >= whole.rank()) return false;
  for (std::size_t axis = 0; axis < whole.rank(); ++axis) {
    const std::int64_t size = whole.begin()[axis], count = term.begin()[axis];
    const bool fits = axis != part.axis
                          ? count == size
                          : part.begin >= 0 && (count == 0 || part.begin + (count - 1) * part.step < size);
    if (!fits) return false;
  }
  return true;
}

void expect_terms(const std::vector<Var>& terms, const std::vector<Var>& inputs, const std::optional<Part>& part) {
  if (terms.size() != inputs.size()) {
    throw_invalid("a gradient returns {} terms, expected one for each of {} inputs", terms.size(), inputs.size());
  }
  for (std::size_t i = 0; i < terms.size(); ++i) {
    if (!inputs[i].requires_grad() || terms[i].is_empty()) continue;
    if (part ? lies_in(terms[i].shape(), *part, inputs[i].shape()) : terms[i].shape() == inputs[i].shape()) continue;
    throw_shape("a gradient returns {} for input {}, expected the shape of {}", to_string(terms[i].value()), i,
                to_string(inputs[i].value()));
  }
}

}  // namespace

void Var::differentiate(const Var& y, const Var& dy, const Differentiation& how) {
  const auto ends = [&](const Node& node) { return node.inputs.empty() || node.number < how.created_before; };
  if (ends(*y.node_)) {
    if (how.only.empty() || how.only.contains(y.node_.get())) how.done({{y, dy}});
    return;
  }
  // Inputs come before the values computed from them. The stack is explicit, so that depth is not limited.
  std::vector<Var> order;
  std::unordered_set<const Node*> seen{y.node_.get()};
  std::unordered_map<const Node*, std::size_t> uses;  // of an end: terms not yet added
  std::vector<std::pair<Var, std::size_t>> stack{{y, 0}};
  while (!stack.empty()) {
    auto& [var, next] = stack.back();
    if (next == var.node_->inputs.size()) {
      order.push_back(std::move(var));
      stack.pop_back();
      continue;
    }
    const Var input = var.node_->inputs[next++];
    if (!input.requires_grad()) continue;
    if (input.node_->is_used_up) throw_invalid("the loss depends on a value that was already differentiated");
    if (ends(*input.node_)) {
      ++uses[input.node_.get()];
    } else if (seen.insert(input.node_.get()).second) {
      stack.emplace_back(input, 0);
    }
  }
  // Nodes that the requested gradients pass through.
  std::unordered_set<const Node*> leading;
  const auto leads = [&](const Var& var) {
    return var.requires_grad() &&
           (how.only.empty() || how.only.contains(var.node_.get()) || leading.contains(var.node_.get()));
  };
  for (const Var& var : order) {
    if (std::any_of(var.node_->inputs.begin(), var.node_->inputs.end(), leads)) leading.insert(var.node_.get());
  }

  detail::StepScope step;
  step.keeps_gradients = how.keep;
  std::unordered_map<const Node*, GradientTerms> gradients;
  gradients[y.node_.get()].add(dy, std::nullopt, false);
  const auto taken = [&](const Var& of) {
    auto found = gradients.extract(of.node_.get());
    return found ? std::optional(found.mapped().sum(of.shape(), of.node_->inputs.empty())) : std::nullopt;
  };
  for (; !order.empty(); order.pop_back()) {
    Node& node = *order.back().node_;
    Pairs complete;
    {
      const auto site = detail::CallSite::of_node(node.where);
      if (const std::optional<Var> of_node = taken(order.back())) {
        if (how.only.contains(&node)) complete.emplace_back(order.back(), *of_node);
        std::vector<Var> terms;
        std::optional<Part> part;
        if (leading.contains(&node)) {
          Gradients by_inputs = node.gradient(order.back(), *of_node, node.inputs);
          terms = std::move(by_inputs.terms());
          part = by_inputs.part();
          expect_terms(terms, node.inputs, part);
        }
        for (std::size_t i = 0; i < terms.size(); ++i) {
          const Var& input = node.inputs[i];
          if (!leads(input) || terms[i].is_empty()) continue;
          const Var term = cast(std::exchange(terms[i], Var()), input.grad_dtype());
          gradients[input.node_.get()].add(term, part, input.node_->inputs.empty());
        }
      }
      for (const Var& input : node.inputs) {
        const auto used = uses.find(input.node_.get());
        if (used == uses.end() || --used->second > 0) continue;
        if (std::optional<Var> of_input = taken(input)) complete.emplace_back(input, *std::move(of_input));
      }
    }
    if (!complete.empty()) how.done(complete);
    if (how.keep) continue;
    // A finished node releases its inputs, so that later work can use their memory.
    node.is_used_up = true;
    node.gradient = nullptr;
    node.inputs.clear();
  }
}

namespace {

void expect_loss(const Var& loss) {
  if (loss.shape() != Shape{}) throw_shape("the loss is {}, expected a scalar", to_string(loss.value()));
  if (loss.dtype() != DType::f32) {
    throw_error(ErrorCode::dtype_mismatch, "the loss is {}, expected f32", to_string(loss.value()));
  }
  if (!loss.requires_grad()) throw_invalid("the loss depends on no parameter");
}

// A constant on the stream of `like`.
Var filled(DType dtype, const Shape& shape, const Var& like, double value) {
  Var result = Var::computed(dtype, shape, {stop_gradient(like)}, nullptr);
  ops::fill(result.value(), value, result.stream());
  return result;
}

}  // namespace

void Var::expect_not_used_up() const {
  // Without its inputs it would count as a parameter.
  if (node_->is_used_up) throw_invalid("the loss was already differentiated");
}

void backward(const Var& loss, const BackwardOptions& options) {
  expect_loss(loss);
  loss.expect_not_used_up();
  const Var seed =
      options.scale ? Var(options.scale, loss.stream()) * options.seed : filled(DType::f32, {}, loss, options.seed);
  const auto done = [&](const Var::Pairs& complete) {
    for (const auto& [x, dx] : complete) x.set_gradient(dx);
    for (const auto& [x, dx] : complete) {
      if (options.on_gradient) options.on_gradient(x);
    }
  };
  Var::differentiate(loss, seed, {.done = done});
}

std::vector<Var> gradients(const Var& y, const std::vector<Var>& xs, const GradientsOptions& options) {
  expect_loss(y);
  y.expect_not_used_up();
  Var::Differentiation how;
  how.keep = options.differentiable;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    if (!xs[i].requires_grad()) {
      throw_invalid("gradients: value {} of {} requires no gradient, expected a parameter or a value computed from one",
                    i, xs.size());
    }
    how.only.insert(xs[i].node_.get());
  }
  if (xs.empty()) return {};
  std::unordered_map<const Var::Node*, Var> found;
  how.done = [&](const Var::Pairs& complete) {
    for (const auto& [x, dx] : complete) found.emplace(x.node_.get(), dx);
  };
  Var::differentiate(y, filled(DType::f32, {}, y, 1), how);
  std::vector<Var> result;
  for (const Var& x : xs) {
    const auto dx = found.find(x.node_.get());
    result.push_back(dx != found.end() ? dx->second : filled(x.grad_dtype(), x.shape(), x, 0));
  }
  return result;
}

}  // namespace giro::nn
