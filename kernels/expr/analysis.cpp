#include "kernels/expr/analysis.h"

#include <algorithm>
#include <bit>

#include "runtime/program/overlap.h"

namespace giro::expr {
namespace {

using Kind = Instruction::Kind;

Analysis::Array array_of(const Layout& layout, const Shape& space) {
  Analysis::Array array;
  for (std::size_t axis = 0; axis < space.rank(); ++axis) {
    array.strides[axis] = layout.strides[axis];
    array.bounds[axis].begin = std::max<std::int64_t>(layout.bounds[axis].begin, 0);
    if (layout.bounds[axis].end < space.begin()[axis]) array.bounds[axis].end = layout.bounds[axis].end;
  }
  return array;
}

Analysis::Array array_of(const Access& access, const Shape& space) {
  Analysis::Array array = array_of(access.layout, space);
  array.misaligned_by = static_cast<int>(reinterpret_cast<std::uintptr_t>(begin_of(access)) % 16);
  array.dtype = access.memory.dtype();
  array.size = size_of(array.dtype);
  return array;
}

}  // namespace

void reject(ErrorCode code, const std::string& what) { throw Error(code, "expression: " + what); }

std::vector<bool> values_of_elements(const Expression& expression,
                                     const std::function<bool(const Instruction&)>& varies) {
  std::vector<bool> result(expression.code.size());
  for (std::size_t i = 0; i < result.size(); ++i) {
    const Instruction& instruction = expression.code[i];
    if (instruction.kind == Kind::reduce) continue;
    bool is_of_element = (instruction.kind == Kind::read || instruction.kind == Kind::place) && varies(instruction);
    for (const std::uint16_t operand : operands_of(instruction)) is_of_element = is_of_element || result[operand];
    result[i] = is_of_element;
  }
  return result;
}

std::vector<std::int64_t> structure_of(const Expression& expression) {
  std::vector<std::int64_t> numbers;
  numbers.reserve(8 + expression.code.size() * 10 + (expression.reads.size() + expression.writes.size()) * 12);
  const auto add = [&](auto... each) { (numbers.push_back(static_cast<std::int64_t>(each)), ...); };
  const auto add_layout = [&](const Layout& layout) {
    for (std::size_t axis = 0; axis < expression.space.rank(); ++axis) {
      add(layout.strides[axis], layout.bounds[axis].begin, layout.bounds[axis].end);
    }
  };
  add(expression.reduced, expression.space.rank());
  for (const std::int64_t size : expression.space) add(size);
  add(expression.reads.size());
  for (const Access& read : expression.reads) add(read.memory.dtype()), add_layout(read.layout);
  add(expression.places.size());
  for (const Layout& place : expression.places) add(place.offset), add_layout(place);
  add(expression.writes.size());
  for (const Expression::Write& write : expression.writes) {
    add(write.value, write.to.memory.dtype());
    add_layout(write.to.layout);
  }
  add(expression.code.size());
  for (const Instruction& i : expression.code) {
    add(i.kind, i.dtype, i.combiner, i.operands[0], i.operands[1], i.operands[2], i.index);
    add(reinterpret_cast<std::intptr_t>(i.function), std::bit_cast<std::int64_t>(i.number), i.integer);
  }
  return numbers;
}

std::byte* begin_of(const Access& access) {
  return static_cast<std::byte*>(access.memory.raw()) +
         access.layout.offset * static_cast<std::int64_t>(size_of(access.memory.dtype()));
}

bool is_written_over_reads(const Expression& expression, const Access& to) {
  return std::any_of(expression.reads.begin(), expression.reads.end(),
                     [&](const Access& read) { return detail::overlap(read.memory, to.memory); });
}

bool Analysis::Array::is_same_along(std::size_t begin, std::size_t end) const {
  for (std::size_t axis = begin; axis < end; ++axis) {
    if (strides[axis] != 0 || !is_whole_along(axis)) return false;
  }
  return true;
}

Analysis::Analysis(const Expression& expression)
    : expression(expression),
      sizes(expression.space.begin(), expression.space.end()),
      row_axes(expression.space.rank() - expression.reduced) {
  find_needed();
  find_levels();
  reads.reserve(expression.reads.size());
  places.reserve(expression.places.size());
  writes.reserve(expression.writes.size());
  for (const Access& read : expression.reads) reads.push_back(array_of(read, expression.space));
  for (const Layout& place : expression.places) {
    places.push_back(array_of(place, expression.space));
    places.back().offset = place.offset;
  }
  for (const Expression::Write& write : expression.writes) writes.push_back(array_of(write.to, expression.space));
}

void Analysis::find_needed() {
  const std::vector<Instruction>& code = expression.code;
  is_needed.resize(code.size());
  for (const Expression::Write& write : expression.writes) {
    if (write.value >= code.size()) reject(ErrorCode::invalid_argument, "a write of a missing value");
    if (write.to.memory.dtype() != code[write.value].dtype) {
      reject(ErrorCode::dtype_mismatch,
             "a write of " + std::string(name_of(code[write.value].dtype)) + " to " + to_string(write.to.memory));
    }
    is_needed[write.value] = true;
  }
  for (std::size_t i = code.size(); i-- > 0;) {
    if (!is_needed[i]) continue;
    for (const std::uint16_t operand : operands_of(code[i])) {
      if (operand >= i) reject(ErrorCode::invalid_argument, "an operand defined after its use");
      is_needed[operand] = true;
    }
    if (code[i].kind == Kind::read && expression.reads[code[i].index].memory.dtype() != code[i].dtype) {
      reject(ErrorCode::dtype_mismatch, "a read of " + std::string(name_of(code[i].dtype)) + " from " +
                                            to_string(expression.reads[code[i].index].memory));
    }
  }
}

void Analysis::find_levels() {
  level.resize(expression.code.size());
  for (std::size_t i = 0; i < level.size(); ++i) {
    const Instruction& instruction = expression.code[i];
    if (!is_needed[i]) continue;
    for (const std::uint16_t operand : operands_of(instruction)) level[i] = std::max(level[i], level[operand]);
    if (instruction.kind == Kind::reduce) levels = std::max(levels, ++level[i]);
  }
}

void Analysis::join_axes() {
  join_axes(row_axes, sizes.size());
  join_axes(0, row_axes);
}

void Analysis::join_axes(std::size_t begin, std::size_t end) {
  std::size_t kept = begin;  // one past the axes that stay
  for (std::size_t axis = begin; axis < end; ++axis) {
    bool is_whole = true;
    for_each_array([&](const Array& a) { is_whole = is_whole && a.is_whole_along(axis); });
    if (sizes[axis] == 1 && is_whole) continue;
    bool joins = kept > begin && is_whole;
    for_each_array([&](const Array& a) { joins = joins && a.strides[kept - 1] == a.strides[axis] * sizes[axis]; });
    if (joins) {
      for_each_array([&](Array& a) {
        Bounds& outer = a.bounds[kept - 1];
        outer.begin *= sizes[axis];
        if (outer.end != Bounds().end) outer.end *= sizes[axis];
        a.strides[kept - 1] = a.strides[axis];
      });
      sizes[kept - 1] *= sizes[axis];
    } else {
      for_each_array([&](Array& a) { a.strides[kept] = a.strides[axis], a.bounds[kept] = a.bounds[axis]; });
      sizes[kept++] = sizes[axis];
    }
  }
  const auto from = static_cast<std::ptrdiff_t>(kept), gone = static_cast<std::ptrdiff_t>(end - kept);
  const auto close_gap = [&](auto& values) {
    for (auto rest = std::shift_left(values.begin() + from, values.end(), gone); rest != values.end(); ++rest)
      *rest = {};
  };
  for_each_array([&](Array& a) { close_gap(a.strides), close_gap(a.bounds); });
  sizes.erase(sizes.begin() + from, sizes.begin() + from + gone);
  if (end == row_axes) row_axes = kept;
}

void Analysis::insert_axis(std::size_t axis) {
  const auto insert_into = [at = static_cast<std::ptrdiff_t>(axis)](auto& values) {
    std::copy_backward(values.begin() + at, values.end() - 1, values.end());
    *(values.begin() + at) = {};
  };
  sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(axis), 1);
  for_each_array([&](Array& a) { insert_into(a.strides), insert_into(a.bounds); });
}

std::vector<bool> Analysis::values_that_vary_from(std::size_t begin) const {
  return values_of_elements(expression, [&](const Instruction& i) {
    return !(i.kind == Kind::read ? reads : places)[i.index].is_same_along(begin, sizes.size());
  });
}

std::vector<std::size_t> Analysis::reduced_in(int pass) const {
  std::vector<std::size_t> reduced;
  for (std::size_t i = 0; i < expression.code.size(); ++i) {
    if (is_needed[i] && expression.code[i].kind == Kind::reduce && level[i] == pass + 1) reduced.push_back(i);
  }
  return reduced;
}

int Analysis::pass_of_write(std::size_t write) const {
  const Expression::Write& output = expression.writes[write];
  return is_written_over_reads(expression, output.to) ? levels : level[output.value];
}

}  // namespace giro::expr
