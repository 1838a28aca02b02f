#include <giro/kernels/nn/var.h>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <giro/kernels/elementwise.h>
#include <giro/runtime/error.h>
#include <giro/runtime/graph.h>

#include "runtime/internal/call_site.h"
#include "runtime/internal/recording.h"

namespace giro::nn {
namespace {

std::shared_ptr<const Buffer> allocate(const Stream& stream, DType dtype, const Shape& shape) {
  return std::make_shared<const Buffer>(stream.allocate(static_cast<std::size_t>(shape.count()) * size_of(dtype)));
}

// Memory from outside of a recording, which its replays use.
void keep(const std::shared_ptr<const void>& memory, const Tensor& value) {
  if (detail::Recording* const recording = detail::Recording::current()) recording->keep(memory, value.raw());
}

}  // namespace

Var::Var(const Tensor& constant) : Var(constant, constant.buffer()) {}

Var::Var(const Tensor& constant, const Stream& stream) : Var(stream.is_recording() ? constant.recorded() : constant) {
  node_->stream = stream;
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
  if (grad) var.node_->grad_dtype = grad.dtype();
  return var;
}

Var stop_gradient(const Var& x) {
  Var result(x.value(), x.node_->storage);
  result.node_->stream = x.node_->stream;
  result.node_->math = x.node_->math;
  return result;
}

Var constant(const HostArray& values, const Stream& stream) {
  const Tensor host = values.tensor();
  const auto storage = std::make_shared<const Buffer>(Buffer::allocate(stream.device(), host.bytes()));
  const Tensor value(storage, host.dtype(), host.shape());
  {
    // What a recording's stream copies it copies at each replay.
    const Stream copies = stream.is_recording() ? Stream(stream.device()) : stream;
    const OutsideRecording outside;
    copies.copy(value.raw(), host.raw(), host.bytes());
    copies.synchronize();
  }
  return Var(value, stream);
}

Var Var::computed(DType dtype, const Shape& shape, std::vector<Var> inputs, Backward backward) {
  const auto on_stream = std::find_if(inputs.begin(), inputs.end(), [](const Var& v) { return v.has_stream(); });
  if (on_stream == inputs.end()) {
    throw Error(ErrorCode::invalid_argument, "an operation on constants alone has no stream to run on");
  }
  const Stream& stream = on_stream->stream();
  if (std::any_of(on_stream, inputs.end(), [&](const Var& v) { return v.has_stream() && v.stream() != stream; })) {
    throw Error(ErrorCode::invalid_argument, "an operation on values of two streams, which do not wait for each other");
  }
  Var result(Tensor(allocate(stream, dtype, shape), dtype, shape), stream);
  if (std::any_of(inputs.begin(), inputs.end(), [](const Var& v) { return v.math() == Math::tf32; })) {
    result.set_math(Math::tf32);
  }
  if (std::any_of(inputs.begin(), inputs.end(), [](const Var& v) { return v.requires_grad(); })) {
    result.node_->requires_grad = true;
    result.node_->inputs = std::move(inputs);
    result.node_->backward = std::move(backward);
    result.node_->where = detail::CallSite::where();
  }
  return result;
}

std::uint64_t Var::next_number() noexcept {
  static std::atomic<std::uint64_t> next{0};
  return next.fetch_add(1, std::memory_order_relaxed);
}

Var Var::reshape(const Shape& shape, std::source_location where) const {
  const detail::CallSite site(where);
  Var result(node_->value.reshape(shape));
  result.node_->stream = node_->stream;
  result.node_->requires_grad = node_->requires_grad;
  result.node_->storage = node_->storage;
  result.node_->math = node_->math;
  result.node_->grad_dtype = node_->grad_dtype;
  if (node_->requires_grad) {
    result.node_->inputs = {*this};
    result.node_->is_view = true;
  }
  return result;
}

Tensor Var::tensor_like(DType dtype, std::shared_ptr<const void>& storage) const {
  const std::shared_ptr<const Buffer> buffer = allocate(stream(), dtype, shape());
  storage = buffer;
  return Tensor(buffer, dtype, shape());
}

void Var::accumulate(const std::function<void(const Tensor&)>& write) const {
  const DType dtype = node_->value.dtype();
  if (dtype == node_->grad_dtype) return accumulate_unrounded(write);
  accumulate_unrounded([&](const Tensor& out) {
    std::shared_ptr<const void> storage;
    const Tensor term = tensor_like(dtype, storage);
    write(term);
    giro::cast(out, term, stream());
  });
}

void Var::accumulate_unrounded(const std::function<void(const Tensor&)>& write) const {
  Node& node = *node_;
  if (!node.requires_grad) return;
  // Set before writing: a write may hold another, for the same value as another argument of one op.
  if (std::exchange(node.has_grad, true)) {
    std::shared_ptr<const void> storage;
    const Tensor term = tensor_like(node.grad_dtype, storage);
    write(term);
    giro::add(node.grad, node.grad, term, stream());
    return;
  }
  if (!node.grad) node.grad = tensor_like(node.grad_dtype, node.grad_storage);
  keep(node.grad_storage, node.grad);
  write(node.grad);
}

void Var::accumulate(Var term) const {
  Node& node = *node_;
  if (!node.requires_grad) return;
  const Tensor& value = term.value();
  if (node.has_grad && node.grad_dtype == value.dtype()) {
    giro::add(node.grad, node.grad, value, stream());
  } else if (!node.grad && node.grad_dtype == value.dtype() && term.node_.use_count() == 1 &&
             term.node_->storage.use_count() == 1) {
    // Nobody else sees its memory, which a backward pass may write to.
    node.has_grad = true;
    node.grad = value;
    node.grad_storage = std::move(term.node_->storage);
  } else {
    accumulate([&](const Tensor& out) { copy(out, value, stream()); });
  }
}

void Var::accumulate_view(const Tensor& term, std::shared_ptr<const void> storage) const {
  Node& node = *node_;
  const Tensor reshaped = term.reshape(node.value.shape());
  if (node.has_grad || node.grad) {
    return accumulate_unrounded([&](const Tensor& out) { copy(out, reshaped, stream()); });
  }
  node.has_grad = true;
  node.grad = reshaped;
  node.grad_storage = std::move(storage);
}

const Tensor& Var::value() const {
  keep(node_->storage, node_->value);
  return node_->value;
}

const Stream& Var::stream() const {
  if (!has_stream()) throw Error(ErrorCode::invalid_argument, "a constant without a stream was asked for its stream");
  return *node_->stream;
}

Var Var::on(const Stream& stream) const {
  if (has_stream()) return *this;
  Var result(stream.is_recording() ? value().recorded() : value(), node_->storage);
  result.node_->stream = stream;
  return result;
}

void Var::check_on_host() const {
  if (value().device().is_cpu()) return;
  throw Error(ErrorCode::device_mismatch, fmt::format("data: the value is {}, expected one in host memory; to_host "
                                                      "brings it there",
                                                      to_string(value())));
}

std::vector<Var> Var::made_before(std::uint64_t since, const Var& y) {
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

void Var::go_back(const Var& from, std::uint64_t since, const std::function<void()>& seed,
                  const BackwardOptions& options) {
  // Inputs before what is computed from them; an explicit stack, so that depth is no limit.
  std::vector<std::shared_ptr<Node>> order;
  std::unordered_set<const Node*> seen;
  std::unordered_map<const Node*, std::size_t> uses;  // of parameters, that have not been differentiated yet
  std::vector<std::pair<std::shared_ptr<Node>, std::size_t>> stack{{from.node_, 0}};
  seen.insert(from.node_.get());
  while (!stack.empty()) {
    auto& [node, next] = stack.back();
    if (node->has_grad && !node->grad) {
      throw Error(ErrorCode::invalid_argument, "the loss depends on a value that was differentiated already");
    }
    if (next < node->inputs.size()) {
      const Var& input = node->inputs[next++];
      if (!input.requires_grad() || input.node_->number < since) continue;
      if (input.node_->inputs.empty()) ++uses[input.node_.get()];
      if (seen.insert(input.node_.get()).second) stack.emplace_back(input.node_, 0);
    } else {
      order.push_back(std::move(node));
      stack.pop_back();
    }
  }

  seed();
  // A node that is done lets go of its inputs, so their memory serves the work that follows.
  while (!order.empty()) {
    const std::shared_ptr<Node> node = std::move(order.back());
    order.pop_back();
    if (node->is_view) {
      node->inputs.front().accumulate_view(node->grad, node->grad_storage);
    } else if (node->backward) {
      const auto site = detail::CallSite::of_node(node->where);
      node->backward(node->value, node->grad, *node->stream);
      node->backward = nullptr;
    } else {
      continue;
    }
    for (const Var& input : node->inputs) {
      const auto used = uses.find(input.node_.get());
      if (used != uses.end() && --used->second == 0 && options.on_gradient) options.on_gradient(input);
    }
    node->inputs.clear();
    node->grad = Tensor();
    node->grad_storage = nullptr;
  }
}

void backward(const Var& loss, const BackwardOptions& options) {
  if (loss.shape() != Shape{}) {
    throw Error(ErrorCode::shape_mismatch, fmt::format("the loss is {}, expected a scalar", to_string(loss.value())));
  }
  if (loss.dtype() != DType::f32) {
    throw Error(ErrorCode::dtype_mismatch, fmt::format("the loss is {}, expected f32", to_string(loss.value())));
  }
  if (!loss.requires_grad()) {
    throw Error(ErrorCode::invalid_argument, "the loss depends on no parameter");
  }
  const auto seed = [&] {
    loss.accumulate([&](const Tensor& out) {
      if (options.scale) {
        giro::broadcast(out, options.scale, options.seed, loss.stream());
      } else {
        giro::fill(out, options.seed, loss.stream());
      }
    });
  };
  Var::go_back(loss, 0, seed, options);
}

}  // namespace giro::nn
