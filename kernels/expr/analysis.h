#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <giro/runtime/error.h>

#include "kernels/expr/expression.h"

namespace giro::expr {

[[noreturn]] void reject(ErrorCode code, const std::string& what);

// Per instruction: whether it has a value per element (otherwise per row), given which reads and places have.
std::vector<bool> values_of_elements(const Expression& expression,
                                     const std::function<bool(const Instruction&)>& varies);

// Whether the expression reads memory that this write changes.
bool is_written_over_reads(const Expression& expression, const Access& to);

// Numbers that are equal for expressions that differ in nothing but addresses.
std::vector<std::int64_t> structure_of(const Expression& expression);

// The address of an array's element at index 0 of each axis.
std::byte* begin_of(const Access& access);

// What every device needs to know to run an expression: which instructions are needed, as few axes as possible, and
// when each value can be computed.
struct Analysis {
  static constexpr std::size_t kMaxAxes = Shape::kMaxRank + 2;  // one more for the rows, and for the reduced axes
  using Bounds = Layout::Bounds;

  // An array's layout in memory, along the axes of `sizes`. It is the same along all axes beyond.
  struct Array {
    DType dtype = DType::i64;
    std::size_t size = 8;     // of an element in bytes
    std::int64_t offset = 0;  // places: the first element's number
    int misaligned_by = 0;    // bytes from the last multiple of 16 to the first element
    std::array<std::int64_t, kMaxAxes> strides{};
    std::array<Bounds, kMaxAxes> bounds{};  // Bounds() if no element is missing along the axis

    bool is_whole_along(std::size_t axis) const { return bounds[axis] == Bounds(); }
    bool is_same_along(std::size_t begin, std::size_t end) const;
  };

  // Each axis of the space is one of `sizes` until join_axes() is called.
  // Errors: dtype_mismatch (memory holds another dtype than its value), invalid_argument (an operand after its use).
  explicit Analysis(const Expression& expression);

  // Drops axes of one element, and joins axes that are contiguous in every array, but no row axis with a reduced one.
  void join_axes();
  // Adds an axis of one element.
  void insert_axis(std::size_t axis);
  template <class F>
  void for_each_array(F&& f) {
    for (auto* arrays : {&reads, &places, &writes}) {
      for (Array& array : *arrays) f(array);
    }
  }

  // The values that vary from the axis `begin` on.
  std::vector<bool> values_that_vary_from(std::size_t begin) const;
  // The reductions that run over all elements in a pass.
  std::vector<std::size_t> reduced_in(int pass) const;
  // The pass that writes an output: the one that computes it, or the last if another pass could still read that memory.
  int pass_of_write(std::size_t write) const;
  // Of an applied function, a cast or a reduction.
  DType inputs_dtype(const Instruction& instruction) const {
    return expression.code[operands_of(instruction).back()].dtype;
  }

  const Expression& expression;
  std::vector<bool> is_needed;  // per instruction: by an output
  std::vector<int> level;       // per instruction: how many reductions in sequence its value depends on
  int levels = 0;               // the most reductions in sequence
  std::vector<std::int64_t> sizes;
  std::size_t row_axes = 0;  // those before the reduced axes
  std::vector<Array> reads, places, writes;

 private:
  void find_needed();
  void find_levels();
  void join_axes(std::size_t begin, std::size_t end);
};

}  // namespace giro::expr
