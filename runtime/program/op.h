#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <typeinfo>
#include <utility>
#include <vector>

#include <giro/runtime/program/program.h>
#include <giro/runtime/stream.h>

#include "runtime/op_by_op.h"
#include "runtime/program/fields.h"
#include "runtime/program/op_signature.h"
#include "runtime/program/recording.h"

// An op is a struct of its arguments. The type of each tensor says how the op uses it (in_out.h):
//
//   struct Dense {
//     static constexpr const char* kName = "dense";
//     static constexpr const char* kArguments = "x: s(bi), w: s(io), b?: s|f32(o) -> y: s(bo)";  // op_signature.h
//     Out y;
//     In x, w, b;
//     MathMode math;
//     double flops() const;  // floating-point operations; 0 if omitted
//   };
//   void run(const Dense& op, const Stream& stream);  // queues it
//
// An op that does one thing after the other, such as a row of logs after an update, has kIsSequence; then a field may
// read what an earlier one writes.
//
// What its arguments are may depend on the op: then a function arguments() returns the OpSignature. An op may also have
// check(name, stream), which throws what is wrong with its arguments besides; kTakesHostMemory, if not all of them must
// be on the stream's device; bytes(), the number of bytes it reads and writes, if that is not all of its arguments; and
// a function next to it, may_write_over(op, write, read): whether `write` may share the memory of `read`, if nothing
// else uses the value of `read` any more. Everything an op touches must be among its arguments.
namespace giro::detail {

// What an op declares of its arguments; null for nothing.
template <class Op>
const OpSignature* signature_of(const Op& op) {
  if constexpr (requires { op.arguments(); }) return &op.arguments();
  if constexpr (requires { Op::kArguments; }) {
    static const OpSignature signature(Op::kArguments);
    return &signature;
  }
  return nullptr;
}

template <class Op>
Program::Node node_of(std::string name, const Op& op) {
  std::vector<Tensor> writes, reads;
  for_each_tensor(op, [&](const Tensor& tensor, Use use) {
    if (use != Use::read) writes.push_back(tensor);
    if (use != Use::written) reads.push_back(tensor);
  });
  double flops = 0;
  std::optional<std::int64_t> bytes;
  if constexpr (requires { op.flops(); }) flops = op.flops();
  if constexpr (requires { op.bytes(); }) bytes = op.bytes();
  Program::Node node(std::move(name), std::move(writes), std::move(reads), flops, bytes);
  if (const OpSignature* const signature = signature_of(op)) node.arguments = signature->line();
  return node;
}

// Throws what is wrong with the op's arguments.
template <class Op>
void check_op(std::string_view name, const Op& op, const Stream& stream) {
  if constexpr (
      requires { op.arguments(); } || requires { Op::kArguments; }) {
    std::array<const Tensor*, 12> reads{}, writes{};
    std::size_t read = 0, written = 0;
    for_each_tensor(op, [&](const Tensor& tensor, Use use) {
      (use == Use::read ? reads.at(read++) : writes.at(written++)) = &tensor;
    });
    std::optional<Device> device;
    if constexpr (!requires { Op::kTakesHostMemory; }) device = stream.device();
    signature_of(op)->check(name, std::span(reads).first(read), std::span(writes).first(written), device);
  }
  if constexpr (requires { op.check(name, stream); }) op.check(name, stream);
}

// An op in a program.
template <class Op>
class CallOf final : public OpCall {
 public:
  explicit CallOf(Op of) : op(std::move(of)) {}

  void for_each(FunctionRef<void(Tensor&, Use)> f) override { for_each_tensor(op, f); }
  void emit(const Stream& stream) const override { run(op, stream); }
  Program::Node node(std::string name) const override { return node_of(std::move(name), op); }
  void check(const HeldOp& held) const override { check_op(held.node.op, op, held.stream); }
  bool is_sequence() const override {
    return requires { Op::kIsSequence; };
  }
  bool can_write_over(const Tensor& write, const Tensor& read) const override {
    if constexpr (requires { may_write_over(op, write, read); }) return may_write_over(op, write, read);
    return false;
  }

  Op op;
};

// The op if it is of that type, or null.
template <class Op>
const Op* op_of(const HeldOp& held) {
  // Faster than a dynamic_cast, and by name, too, if a library has a type_info of its own.
  const OpCall* const call = held.call.get();
  if (call == nullptr || typeid(*call) != typeid(CallOf<Op>)) return nullptr;
  return &static_cast<const CallOf<Op>*>(call)->op;
}

}  // namespace giro::detail

namespace giro {

// Queues an op on the stream; in a recording it is held as an op of the program, under that name. Errors:
// device_mismatch, those of OpSignature::check, and what check() of the op throws.
template <class Op>
void queue(const std::string& name, Op op, const Stream& stream) {
  detail::check_op(name, op, stream);
  if (!detail::Recording::holds()) return detail::run_op(name.c_str(), stream, [&] { run(op, stream); });
  detail::Recording::current()->hold(
      {Program::Node(name, {}, {}), stream, std::make_shared<detail::CallOf<Op>>(std::move(op))});
}
template <class Op>
  requires requires { Op::kName; }
void queue(Op op, const Stream& stream) {
  queue(Op::kName, std::move(op), stream);
}

}  // namespace giro
