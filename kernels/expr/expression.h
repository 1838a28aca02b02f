#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include <giro/runtime/dtype.h>
#include <giro/runtime/shape.h>
#include <giro/runtime/tensor.h>

#include "kernels/expr/scalar_function.h"

namespace giro::expr {

// The layout of an array in memory along the axes of an expression's space: element (i0, i1, ...) of the space is
// number offset + i0 strides[0] + i1 strides[1] + ... of the array. A stride of 0 is a broadcast, a negative one a
// flip.
struct Layout {
  // For a read: only elements [begin, end) along an axis exist.
  struct Bounds {
    std::int64_t begin = 0, end = std::numeric_limits<std::int64_t>::max();

    bool holds_all_of(std::int64_t size) const { return begin <= 0 && end >= size; }
    bool operator==(const Bounds&) const = default;
  };

  std::int64_t offset = 0;
  std::array<std::int64_t, Shape::kMaxRank> strides{};
  // An element outside the bounds of any axis reads as 0, and its memory is not accessed.
  std::array<Bounds, Shape::kMaxRank> bounds{};

  bool operator==(const Layout&) const = default;
};

// Where an expression reads or writes.
struct Access {
  Tensor memory;
  Layout layout;
  bool operator==(const Access& other) const {
    return memory.place() == other.memory.place() && memory.dtype() == other.memory.dtype() && layout == other.layout;
  }
};

// How a reduction combines the elements along the reduced axes. Sums and products take numbers; the sum of booleans
// counts. max and min are NaN if any element is NaN. argmax and argmin are the index of the first largest or smallest
// element, or of the first NaN, counted along the reduced axes, as i64.
enum class Combiner : std::uint8_t { sum, product, max, min, any, all, argmax, argmin };

// A value of an expression: one per element of its space or, if it does not depend on the reduced axes, one per row.
struct Instruction {
  enum class Kind : std::uint8_t {
    read,      // reads[index]
    constant,  // `number` or `integer`
    place,     // the element's number in places[index], as i64
    apply,     // `function` of operands
    cast,      // operands[0], converted to dtype: truncated toward 0 to an integer, != 0 to boolean
    reduce     // `combiner` of operands[0] over the reduced axes
  };

  Kind kind = Kind::read;
  // Of the value. bf16 and f16 values are held in f32, rounded to their dtype.
  DType dtype = DType::f32;
  Combiner combiner = Combiner::sum;
  std::array<std::uint16_t, 3> operands{};  // instructions before this one
  std::uint16_t index = 0;
  const ScalarFunction* function = nullptr;
  double number = 0;         // of a constant of a floating dtype
  std::int64_t integer = 0;  // of a constant of another dtype
  bool operator==(const Instruction&) const = default;
};

// Those that an instruction, const or not, has.
template <class Of>
auto operands_of(Of& instruction) {
  const bool has_one = instruction.kind == Instruction::Kind::cast || instruction.kind == Instruction::Kind::reduce;
  const int count = instruction.kind == Instruction::Kind::apply ? instruction.function->inputs : has_one;
  return std::span(instruction.operands).first(static_cast<std::size_t>(count));
}

// Computes several arrays from others in one pass: each element of the space runs through the instructions. Reductions
// run over the last `reduced` axes of the space; the other axes number its rows.
//
// Several writes may go to disjoint parts of one array. An output may use the memory of an input if each element is
// read only where it is written: elements are written in the order of the space, after all reads of that element. Each
// value is rounded to its dtype, and the order of sums and products depends on the space alone. So results have the
// same bits, fused or not, with any number of threads.
struct Expression {
  struct Write {
    Access to;
    std::uint16_t value;  // index of an instruction; if per row, strides along the reduced axes are 0
    bool operator==(const Write&) const = default;
  };

  Shape space;
  std::size_t reduced = 0;
  std::vector<Access> reads;
  std::vector<Layout> places;
  std::vector<Instruction> code;
  std::vector<Write> writes;
  bool operator==(const Expression&) const = default;
  // Error(device_mismatch), naming the op, for memory on another device than the stream's.
  void check(std::string_view op, const Stream& stream) const;
};

inline std::size_t reductions(const Expression& expression) {
  return static_cast<std::size_t>(
      std::count_if(expression.code.begin(), expression.code.end(),
                    [](const Instruction& each) { return each.kind == Instruction::Kind::reduce; }));
}
inline bool reduces(const Expression& expression) { return reductions(expression) > 0; }

}  // namespace giro::expr
