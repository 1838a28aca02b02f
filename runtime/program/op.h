#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <giro/runtime/program/program.h>
#include <giro/runtime/stream.h>

#include "runtime/op_by_op.h"
#include "runtime/program/fields.h"
#include "runtime/program/recording.h"

// An op is a struct of its arguments. The type of each tensor says how the op uses it (in_out.h):
//
//   struct Dense {
//     static constexpr const char* kName = "dense";
//     static constexpr const char* kDims = "bi, io, o -> bo";  // dimensions.h; or a function dims()
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
// An op may also have bytes(), the number of bytes it reads and writes, if that is not all of its arguments, and a
// function next to it, may_write_over(op, write, read): whether `write` may share the memory of `read`, if nothing else
// uses the value of `read` any more. Everything an op touches must be among its arguments.
namespace giro::detail {

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
  return {std::move(name), std::move(writes), std::move(reads), flops, bytes};
}

// An op in a program.
template <class Op>
class CallOf final : public OpCall {
 public:
  explicit CallOf(Op of) : op(std::move(of)) {}

  void for_each(const std::function<void(Tensor&, Use)>& f) override { for_each_tensor(op, f); }
  void emit(const Stream& stream) const override { run(op, stream); }
  Program::Node node(std::string name) const override { return node_of(std::move(name), op); }
  std::string dims() const override {
    if constexpr (requires { op.dims(); }) return op.dims();
    if constexpr (requires { Op::kDims; }) return Op::kDims;
    return {};
  }
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
  const auto* const call = dynamic_cast<const CallOf<Op>*>(held.call.get());
  return call != nullptr ? &call->op : nullptr;
}

}  // namespace giro::detail

namespace giro {

// Queues an op on the stream; in a recording it is held as an op of the program, under that name.
template <class Op>
void queue(const std::string& name, Op op, const Stream& stream) {
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
