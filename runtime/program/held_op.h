#pragma once

#include <memory>
#include <string>
#include <vector>

#include <giro/runtime/function_ref.h>
#include <giro/runtime/program/program.h>
#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

#include "runtime/in_out.h"

namespace giro::detail {

struct HeldOp;

// An op held by a program: what it will queue, with its own copy of the arguments.
class OpCall {
 public:
  virtual ~OpCall() = default;
  // Calls f for each tensor among the arguments, and keeps what f makes of it.
  virtual void for_each(FunctionRef<void(Tensor&, Use)> f) = 0;
  virtual void emit(const Stream& stream) const = 0;
  // The op as a node of a program.
  virtual Program::Node node(std::string name) const = 0;
  // Throws what is wrong with its arguments.
  virtual void check(const HeldOp& held) const = 0;
  // Whether it does one thing after the other, and may read what it has written, in the order of for_each.
  virtual bool is_sequence() const = 0;
  // Whether `write` may share the memory of `read`, if nothing else uses the value of `read` any more.
  virtual bool can_write_over(const Tensor& write, const Tensor& read) const = 0;
};

struct HeldOp {
  enum class Kind {
    op,          // can run by itself; a rule may replace it
    collective,  // of all ranks: it never runs by itself
    event        // between streams; not a node of the program
  };

  // No other op is moved across it.
  bool is_barrier() const noexcept { return kind != Kind::op; }

  Program::Node node;  // what it reads and writes is known once it has its memory
  Stream stream;
  std::shared_ptr<OpCall> call;
  Kind kind = Kind::op;
};

// Queues the work of an op of a program. Errors name the op, and the line of the user's program that made it.
void emit(const OpCall& call, const Program::Node& node, const Stream& stream);

class Values;

// What a recording does with its ops before it queues them.
struct Rewrite {
  // Replaces ops with others; their tensors name `values`.
  void (*rewrite)(std::vector<HeldOp>& ops, Values& values) = nullptr;
  // Prepares the device for them; their tensors have memory.
  void (*prepare)(const std::vector<HeldOp>& ops) = nullptr;
};

}  // namespace giro::detail
