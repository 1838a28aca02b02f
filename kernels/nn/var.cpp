#include <giro/kernels/nn/var.h>

#include <algorithm>
#include <atomic>
#include <unordered_map>

#include <giro/kernels/nn/elementwise.h>
#include <giro/kernels/nn/functional.h>
#include <giro/kernels/nn/part_calls.h>
#include <giro/runtime/program/graph.h>
#include <giro/runtime/state.h>

#include "kernels/elementwise.h"
#include "kernels/nn/call_order.h"
#include "kernels/nn/gradients.h"
#include "kernels/nn/store.h"
#include "runtime/backend.h"
#include "runtime/call_site.h"
#include "runtime/program/recording.h"
#include "runtime/throw_error.h"

namespace giro::nn {
namespace {

std::shared_ptr<const Buffer> allocate(const Stream& stream, DType dtype, const Shape& shape) {
  return std::make_shared<const Buffer>(stream.allocate(static_cast<std::size_t>(shape.count()) * size_of(dtype)));
}

// Makes a recording keep memory from outside of it alive, for its replays.
void keep(const std::shared_ptr<const void>& memory, const Tensor& value) {
  if (detail::Recording* const recording = detail::Recording::current()) recording->keep(memory, value.raw());
}

}  // namespace

Var::Var(const Tensor& constant) : Var(constant, constant.buffer()) {}

Var::Var(const Tensor& constant, const Stream& stream) : Var(stream.is_recording() ? constant.recorded() : constant) {
  node_->stream = stream;
  hold();
}

Var::Var(const Tensor& constant, std::shared_ptr<const void> owner) : node_(std::make_shared<Node>()) {
  node_->value = constant;
  node_->storage = std::move(owner);
  node_->grad_dtype = constant.dtype();
}

Var Var::parameter(const Tensor& value, const Tensor& grad, const Stream& stream) {
  Var var(value, stream);
  var.node_->requires_grad = true;
  var.node_->grad = grad;
  var.node_->grad_storage = grad.buffer();
  if (grad || grad.count() == 0) var.node_->grad_dtype = grad.dtype();
  return var;
}

Var stop_gradient(const Var& x) {
  const Tensor& value = x.value();  // may settle where it is
  Var result(value, x.node_->storage);
  result.node_->held = x.node_->held;
  result.node_->stream = x.node_->stream;
  result.node_->math = x.node_->math;
  Var::note_inputs(result, {&x, 1});
  result.node_->direction = x.node_->direction;
  return result;
}

Var with_gradient(const Var& y, std::vector<Var> inputs, Gradient gradient) {
  Var result = stop_gradient(y);
  if (detail::GradientMode::is_on() &&
      std::any_of(inputs.begin(), inputs.end(), [](const Var& v) { return v.requires_grad(); })) {
    result.node_->requires_grad = true;
    result.node_->grad_dtype = y.grad_dtype();
    result.node_->inputs = std::move(inputs);
    result.node_->gradient = std::move(gradient);
    result.node_->where = detail::CallSite::where();
  }
  return result;
}

Var constant(const HostArray& values, const Stream& stream) {
  const Tensor host = values.tensor();
  const auto storage = std::make_shared<const Buffer>(Buffer::allocate(stream.device(), host.bytes()));
  const Tensor value(storage, host.dtype(), host.shape());
  {
    // A copy on a recording's stream would be repeated at each replay.
    const Stream copies = stream.is_recording() ? Stream(stream.device()) : stream;
    const OutsideRecording outside;
    copies.copy(value.raw(), host.raw(), host.bytes());
    copies.synchronize();
  }
  return Var(value, stream);
}

Var Var::computed(DType dtype, const Shape& shape, std::vector<Var> inputs, Gradient gradient) {
  const auto on_stream = std::find_if(inputs.begin(), inputs.end(), [](const Var& v) { return v.has_stream(); });
  if (on_stream == inputs.end()) {
    throw Error(ErrorCode::invalid_argument,
                "an operation on constants alone has no stream to run on, expected one of them on a stream, as by "
                "nn::constant or Var::on");
  }
  const Stream& stream = on_stream->stream();
  if (std::any_of(on_stream, inputs.end(), [&](const Var& v) { return v.has_stream() && v.stream() != stream; })) {
    throw Error(ErrorCode::invalid_argument, "an operation on values of two streams, which do not wait for each other");
  }
  Var result(Tensor(allocate(stream, dtype, shape), dtype, shape), stream);
  if (std::any_of(inputs.begin(), inputs.end(), [](const Var& v) { return v.math() == MathMode::tf32; })) {
    result.set_math_mode(MathMode::tf32);
  }
  note_inputs(result, inputs);
  if (gradient && detail::GradientMode::is_on() &&
      std::any_of(inputs.begin(), inputs.end(), [](const Var& v) { return v.requires_grad(); })) {
    result.node_->requires_grad = true;
    result.node_->inputs = std::move(inputs);
    result.node_->gradient = std::move(gradient);
    result.node_->where = detail::CallSite::where();
  }
  return result;
}

void Var::note_inputs(const Var& y, std::span<const Var> inputs) {
  PartCalls::note(y, inputs);
  for (const Var& input : inputs) {
    for (const auto& call : input.node_->calls) {
      if (call.first->open > 0 && std::ranges::count(y.node_->calls, call) == 0) y.node_->calls.push_back(call);
    }
  }
}

std::uint64_t Var::next_number() noexcept {
  static std::atomic<std::uint64_t> next{0};
  return next.fetch_add(1, std::memory_order_relaxed);
}

Var Var::view(const Tensor& part, Gradient gradient) const {
  Var result(part, node_->storage);
  result.node_->held = node_->held;
  result.node_->stream = node_->stream;
  result.node_->math = node_->math;
  result.node_->direction = node_->direction;
  result.node_->grad_dtype = node_->grad_dtype;
  if (node_->requires_grad && detail::GradientMode::is_on()) {
    result.node_->requires_grad = true;
    result.node_->inputs = {*this};
    result.node_->gradient = std::move(gradient);
  }
  note_inputs(result, {this, 1});
  return result;
}

Var Var::reshape(const Shape& shape, std::source_location where) const {
  const detail::CallSite site(where);
  return view(tensor().reshape(shape),
              [](const Var&, const Var& dy, const std::vector<Var>& in) { return dy.reshape(in.front().shape()); });
}

const Tensor& Var::value() const {
  if (node_->of_part.calls) PartCalls::expect_all(*this);
  const Tensor& value = tensor();
  keep(node_->storage, value);
  return value;
}

const Stream& Var::stream() const {
  if (!has_stream()) throw Error(ErrorCode::invalid_argument, "a constant without a stream was asked for its stream");
  return *node_->stream;
}

Var Var::on(const Stream& stream) const {
  if (has_stream()) return *this;
  Var result(stream.is_recording() ? value().recorded() : value(), node_->storage);
  result.node_->stream = stream;
  result.hold();
  return result;
}

void Var::hold() const {
  if (node_->value.leaf_memory() == nullptr || node_->value.count() == 0) return;
  node_->held = stream().impl().held_values.hold(node_->value, stream());
}

const Tensor& Var::tensor() const {
  if (node_->held && node_->held->copied) {
    const Tensor now = node_->held->now(node_->value);
    node_->value = stream().is_recording() ? now.recorded() : now;
    node_->storage = node_->held->copied;
    node_->held = nullptr;
  }
  return node_->value;
}

void set(const State& state, const std::string& path, const Var& given, std::source_location where) {
  const giro::detail::CallSite site(where);
  const Var value = given.on(state.stream());
  if (value.stream() != state.stream()) {
    throw_error(ErrorCode::invalid_argument, "set: the value for '{}' is on another stream than the state", path);
  }
  const Tensor leaf = state.at(path);
  if (value.shape() != leaf.shape() || value.dtype() != leaf.dtype()) {
    throw_error(value.shape() != leaf.shape() ? ErrorCode::shape_mismatch : ErrorCode::dtype_mismatch,
                "set: '{}' is {}, found {}", path, to_string(leaf), to_string(value.value()));
  }
  store(leaf, value);
}

void Var::check_on_host() const {
  if (is_empty()) throw Error(ErrorCode::invalid_argument, "data: the nn::Var is empty, expected a value");
  if (value().device().is_cpu()) return;
  throw_error(ErrorCode::device_mismatch,
              "data: the value is {}, expected one in host memory; to_host "
              "copies it there",
              to_string(value()));
}

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
    throw_error(ErrorCode::invalid_argument, "a gradient returns {} terms, expected one for each of {} inputs",
                terms.size(), inputs.size());
  }
  for (std::size_t i = 0; i < terms.size(); ++i) {
    if (!inputs[i].requires_grad() || terms[i].is_empty()) continue;
    if (part ? lies_in(terms[i].shape(), *part, inputs[i].shape()) : terms[i].shape() == inputs[i].shape()) continue;
    throw_error(ErrorCode::shape_mismatch, "a gradient returns {} for input {}, expected the shape of {}",
                to_string(terms[i].value()), i, to_string(inputs[i].value()));
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
    if (input.node_->is_used_up) {
      throw Error(ErrorCode::invalid_argument, "the loss depends on a value that was already differentiated");
    }
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

  const detail::GradientMode mode(how.keep);
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

void Var::set_gradient(const Var& dx) const {
  Node& node = *node_;
  keep(node.grad_storage, node.grad);
  const Tensor value = dx.value().reshape(node.grad.shape());
  if (std::exchange(node.has_grad, true)) {
    detail::before_write(node.grad, stream());
    ops::add(node.grad, node.grad, value, stream());
  } else {
    copy(node.grad, value, stream());
  }
}

namespace {

void expect_loss(const Var& loss) {
  if (loss.shape() != Shape{}) {
    throw_error(ErrorCode::shape_mismatch, "the loss is {}, expected a scalar", to_string(loss.value()));
  }
  if (loss.dtype() != DType::f32) {
    throw_error(ErrorCode::dtype_mismatch, "the loss is {}, expected f32", to_string(loss.value()));
  }
  if (!loss.requires_grad()) {
    throw Error(ErrorCode::invalid_argument, "the loss depends on no parameter");
  }
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
  if (node_->is_used_up) throw Error(ErrorCode::invalid_argument, "the loss was already differentiated");
}

void backward(const Var& loss, const BackwardOptions& options) {
  expect_loss(loss);
  loss.expect_not_used_up();
  Var seed;
  if (options.scale) {
    seed = Var(options.scale, loss.stream()) * options.seed;
  } else {
    seed = filled(DType::f32, {}, loss, options.seed);
  }
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
      throw_error(ErrorCode::invalid_argument,
                  "gradients: value {} of {} requires no gradient, expected a parameter or a value "
                  "computed from one",
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
