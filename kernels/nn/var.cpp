#include <giro/kernels/nn/var.h>

#include <algorithm>
#include <atomic>

#include <giro/kernels/nn/part_calls.h>
#include <giro/runtime/program/graph.h>
#include <giro/runtime/state.h>
#include <giro/runtime/step_context.h>

#include "kernels/elementwise.h"
#include "kernels/nn/call_order.h"
#include "kernels/nn/store.h"
#include "runtime/backend.h"
#include "runtime/call_site.h"
#include "runtime/program/recording.h"
#include "runtime/throw_error.h"

namespace giro::nn {
namespace {

// Makes a recording keep memory from outside of it alive, for its replays.
void keep(const std::shared_ptr<const void>& memory, const Tensor& value) {
  if (detail::Recording* const recording = detail::Recording::current()) recording->keep(memory, value.place());
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

Var Var::sharing(const Tensor& part) const {
  Var result(part, node_->storage);
  result.node_->held = node_->held;
  result.node_->stream = node_->stream;
  result.node_->math = node_->math;
  result.node_->direction = node_->direction;
  note_inputs(result, {this, 1});
  return result;
}

Var stop_gradient(const Var& x) {
  const Tensor& value = x.value();  // may settle where it is
  return x.sharing(value);
}

Var with_gradient(const Var& y, std::vector<Var> inputs, Gradient gradient) {
  Var result = stop_gradient(y);
  result.derive(std::move(inputs), std::move(gradient));
  result.node_->where = detail::CallSite::where();
  if (result.requires_grad()) result.node_->grad_dtype = y.grad_dtype();
  return result;
}

void Var::derive(std::vector<Var> inputs, Gradient gradient) const {
  if (!detail::StepScope::current().keeps_gradients || std::ranges::none_of(inputs, &Var::requires_grad)) return;
  node_->requires_grad = true;
  node_->inputs = std::move(inputs);
  node_->gradient = std::move(gradient);
}

Var uninitialized(DType dtype, const Shape& shape, const Stream& stream) {
  const auto bytes = static_cast<std::size_t>(shape.count()) * size_of(dtype);
  return {Tensor(std::make_shared<const Buffer>(stream.allocate(bytes)), dtype, shape), stream};
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
  const auto on_stream = std::ranges::find_if(inputs, &Var::has_stream);
  if (on_stream == inputs.end()) {
    throw_invalid(
        "an operation on constants alone has no stream to run on, expected one of them on a stream, as by nn::constant "
        "or Var::on");
  }
  const Stream& stream = on_stream->stream();
  if (std::any_of(on_stream, inputs.end(), [&](const Var& v) { return v.has_stream() && v.stream() != stream; })) {
    throw_invalid("an operation on values of two streams, which do not wait for each other");
  }
  Var result = uninitialized(dtype, shape, stream);
  if (std::ranges::count(inputs, MathMode::tf32, &Var::math) > 0) result.set_math_mode(MathMode::tf32);
  note_inputs(result, inputs);
  result.node_->where = detail::CallSite::where();
  if (gradient) result.derive(std::move(inputs), std::move(gradient));
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
  Var result = sharing(part);
  result.node_->grad_dtype = node_->grad_dtype;
  if (node_->requires_grad) result.derive({*this}, std::move(gradient));
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
  if (!has_stream()) throw_invalid("a constant without a stream was asked for its stream");
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
    throw_invalid("set: the value for '{}' is on another stream than the state", path);
  }
  const Tensor leaf = state.at(path);
  if (value.shape() != leaf.shape() || value.dtype() != leaf.dtype()) {
    throw_error(value.shape() != leaf.shape() ? ErrorCode::shape_mismatch : ErrorCode::dtype_mismatch,
                "set: '{}' is {}, found {}", path, to_string(leaf), to_string(value.value()));
  }
  store(leaf, value);
}

void Var::check_on_host() const {
  if (is_empty()) throw_invalid("data: the nn::Var is empty, expected a value");
  if (value().device().is_cpu()) return;
  throw_error(ErrorCode::device_mismatch, "data: the value is {}, expected one in host memory; to_host copies it there",
              to_string(value()));
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

}  // namespace giro::nn
