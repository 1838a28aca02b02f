#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <giro/runtime/tensor.h>

#include "runtime/program/held_op.h"

namespace giro::detail {

// The number of a value of a program; 0 is none.
using Id = std::uint32_t;

// While rules work on a program, the tensors among its ops' arguments name values: instead of an address they hold a
// number and an offset in bytes. Two of the same value overlap as what they name does. A value and its parts have
// memory in common, but different names.
Tensor named(Id id, std::size_t offset, const Tensor& like);
// 0 for a tensor that names none.
Id id_of(const Tensor& tensor);
std::size_t offset_of(const Tensor& tensor);

// A value of a program: one op writes it, once, or it was there before, or it consists of parts.
struct Value {
  // Elements of this value that are those of another: of arrays that lie side by side, as a collection's leaves or the
  // parts of a concatenation. If an op writes this value, it leaves them out.
  struct Part {
    std::size_t offset, bytes;  // in this value
    Id id;
    std::size_t offset_of_it;
    bool operator==(const Part&) const = default;
  };

  char* place;        // its address, or the name that the trace gave it
  std::size_t bytes;  // from there
  bool is_input = false;
  bool is_temporary = false;  // an op writes it, and nothing but ops of this program reads it
  bool is_gone = false;       // another value has taken its place
  std::vector<Part> parts{};
  std::vector<Id> wholes{};          // the values that contain it
  Id before = 0;                     // of an InOut: the value that the op finds there,
  std::size_t offset_of_before = 0;  // and where in it
  // Values in the same memory: those that were there before it, and those that are written over it.
  std::vector<Id> over{}, under{};
};

class Values {
 public:
  // For a program of that many ops.
  explicit Values(std::size_t ops = 0) : all_(1) { all_.reserve(4 * ops); }

  Id add(Value value);
  // How many there are; the numbers run from 1 up to here.
  std::size_t count() const { return all_.size() - 1; }
  Value& operator[](Id id) { return all_[id]; }
  const Value& operator[](Id id) const { return all_[id]; }
  Value& of(const Tensor& tensor) { return all_[id_of(tensor)]; }
  const Value& of(const Tensor& tensor) const { return all_[id_of(tensor)]; }

  // The memory of what a tensor names; a tensor that names no value stays what it is.
  Tensor placed(const Tensor& tensor) const;
  // Calls f(id, begin, bytes) for the value that the tensor names, and for each that has elements in common with it as
  // a part, with those of its bytes.
  template <class F>
  void for_each_range(const Tensor& tensor, const F& f) const {
    if (const Id id = id_of(tensor)) for_each_in(id, offset_of(tensor), tensor.bytes(), f);
  }
  template <class F>
  void for_each(const Tensor& tensor, const F& f) const {
    for_each_range(tensor, [&](Id id, std::size_t, std::size_t) { f(id); });
  }
  // Calls f(tensor, whether it is read) for each argument of an op, in both ways for an InOut.
  void for_each_use(const HeldOp& op, FunctionRef<void(const Tensor&, bool)> f) const;
  // Gives each temporary that the ops use memory of its own.
  void settle(const std::vector<HeldOp>& ops, Arena& trace);
  // Notes that a value is written to memory in which another is.
  void note_over(Id later, Id earlier);

 private:
  template <class F>
  void for_each_in(Id id, std::size_t begin, std::size_t bytes, const F& f) const {
    f(id, begin, bytes);
    for (const Value::Part& part : all_[id].parts) {
      const std::size_t first = std::max(begin, part.offset);
      const std::size_t last = std::min(begin + bytes, part.offset + part.bytes);
      if (first < last) for_each_in(part.id, part.offset_of_it + first - part.offset, last - first, f);
    }
  }

  std::vector<Value> all_;
};

// Numbers the values of a program that was traced, and lets its ops name them. Memory that several ops write, one after
// the other, holds as many values. `trace` holds the temporaries.
Values number(std::vector<HeldOp>& ops, const Arena& trace);

}  // namespace giro::detail
