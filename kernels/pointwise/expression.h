#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <variant>
#include <vector>

#include <giro/runtime/dtype.h>
#include <giro/runtime/shape.h>
#include <giro/runtime/tensor.h>

#include "kernels/pointwise/scalar_function.h"

namespace giro::pointwise {

// How an array lies in memory along the axes of an expression's space: element (i0, i1, ...) is number
// offset + i0 strides[0] + i1 strides[1] + ... of it. A stride of 0 is a broadcast, a negative one a flip.
struct Layout {
  // Along an axis, of a read: elements [begin, end) are there.
  struct Bounds {
    std::int64_t begin = 0, end = std::numeric_limits<std::int64_t>::max();

    bool holds_all_of(std::int64_t size) const { return begin <= 0 && end >= size; }
    bool operator==(const Bounds&) const = default;
  };

  std::int64_t offset = 0;
  std::array<std::int64_t, Shape::kMaxRank> strides{};
  // Where an element is not there along some axis, it is 0 and its memory is not touched.
  std::array<Bounds, Shape::kMaxRank> bounds{};

  bool operator==(const Layout&) const = default;
};

// Where an expression reads or writes.
struct Access {
  Tensor memory;
  Layout layout;
  bool operator==(const Access& other) const {
    return memory.raw() == other.memory.raw() && memory.dtype() == other.memory.dtype() && layout == other.layout;
  }
};

// What a reduction makes of the elements along the reduced axes. Sums and products are of numbers; sum of boolean
// counts. max and min give NaN if one element is; argmax and argmin the place of the first that is largest, or of the
// first NaN, counted along the reduced axes, as i64.
enum class Combiner : std::uint8_t { sum, product, max, min, any, all, argmax, argmin };

// A value of an expression: one for each element of its space, or, where it does not depend on the reduced axes, one
// for each row.
struct Instruction {
  enum class Kind : std::uint8_t {
    read,      // reads[index]
    constant,  // `number` or `integer`
    place,     // the number that places[index] gives the element, as i64
    apply,     // `function` of operands
    cast,      // operands[0], converted to dtype: truncated toward 0 to an integer, != 0 to boolean
    reduce     // `combiner` of operands[0] over the reduced axes
  };

  Kind kind = Kind::read;
  // Of the value. One of bf16 or f16 is held in f32, rounded to its dtype.
  DType dtype = DType::f32;
  Combiner combiner = Combiner::sum;
  std::array<std::uint16_t, 3> operands{};  // instructions before this one
  std::uint16_t index = 0;
  const ScalarFunction* function = nullptr;
  double number = 0;         // of a constant of a floating dtype
  std::int64_t integer = 0;  // of one of another
  bool operator==(const Instruction&) const = default;
};

// How many operands it has.
inline std::size_t operand_count(const Instruction& instruction) {
  if (instruction.kind == Instruction::Kind::apply) return static_cast<std::size_t>(instruction.function->inputs);
  return instruction.kind == Instruction::Kind::cast || instruction.kind == Instruction::Kind::reduce ? 1 : 0;
}

// Computes several arrays from others in one pass: each element of the space runs through the instructions. The last
// `reduced` axes of the space are those that reductions run over; the others together number its rows.
//
// Several writes may be of parts of one array that have no element in common. An output may take the memory of an input
// that is read there and nowhere else: elements are written in the order of the space after all reads of that element.
// So fused, unfused and in any number of threads the results are the same to the bit: each value is rounded to its
// dtype, sums and products go in an order that follows from the space alone.
struct Expression {
  struct Write {
    Access to;
    std::uint16_t value;  // an instruction; of a row: strides along the reduced axes are 0
    bool operator==(const Write&) const = default;
  };

  Shape space;
  std::size_t reduced = 0;
  std::vector<Access> reads;
  std::vector<Layout> places;
  std::vector<Instruction> code;
  std::vector<Write> writes;
  bool operator==(const Expression&) const = default;
};

inline std::size_t reductions(const Expression& expression) {
  return static_cast<std::size_t>(
      std::count_if(expression.code.begin(), expression.code.end(),
                    [](const Instruction& each) { return each.kind == Instruction::Kind::reduce; }));
}
inline bool reduces(const Expression& expression) { return reductions(expression) > 0; }

}  // namespace giro::pointwise
