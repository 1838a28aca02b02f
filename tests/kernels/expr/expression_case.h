#pragma once

// Expressions with inputs, and their expected results from plain loops over doubles. Each value carries a bound on its
// rounding error, so tolerances are derived, never chosen.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/expr/expression.h"
#include "tests/kernels/op_test.h"

namespace giro::test {

using expr::Access;
using expr::Combiner;
using expr::Expression;
using expr::Instruction;
using expr::Layout;
using expr::ScalarFunction;

// A scalar function and its equivalent in double. `error` is the error of its last step, in units of 2^-24 of the
// result.
struct TestFunction {
  ScalarFunction function;
  std::function<double(double, double, double)> value;
  double error = 1;
};
using expr::Gives;
using expr::Takes;
inline const TestFunction kAdd{{"add", 2, "plus(a, b)", {}, {.takes = Takes::numbers}},
                               [](double a, double b, double) { return a + b; }};
inline const TestFunction kSubtract{{"subtract", 2, "minus(a, b)", {}, {.takes = Takes::numbers}},
                                    [](double a, double b, double) { return a - b; }};
inline const TestFunction kMultiply{{"multiply", 2, "times(a, b)", {}, {.takes = Takes::numbers}},
                                    [](double a, double b, double) { return a * b; }};
inline const TestFunction kDivide{{"divide", 2, "a / b", {}, {}}, [](double a, double b, double) { return a / b; }};
// For each of these, CUDA promises 2 units in the last place, which are up to 4 units of 2^-24.
inline const TestFunction kExp{{"exp", 1, "exp(a)", {}, {}}, [](double a, double, double) { return std::exp(a); }, 4};
inline const TestFunction kTanh{
    {"tanh", 1, "tanh(a)", {}, {}}, [](double a, double, double) { return std::tanh(a); }, 4};
inline const TestFunction kLess{
    {"less", 2, "a < b", {}, {.takes = Takes::any, .gives = Gives::boolean, .is_exact = true}},
    [](double a, double b, double) { return a < b ? 1.0 : 0.0; },
    0};
inline const TestFunction kWhere{{"where", 3, "a ? b : c", {}, {.takes = Takes::select, .is_exact = true}},
                                 [](double a, double b, double c) { return a != 0 ? b : c; },
                                 0};

inline Layout row_major(const Shape& shape, std::int64_t offset = 0) {
  Layout layout{.offset = offset};
  std::int64_t stride = 1;
  for (std::size_t axis = shape.rank(); axis-- > 0;) {
    layout.strides[axis] = stride;
    stride *= shape[static_cast<int>(axis)];
  }
  return layout;
}
inline Layout strided(std::array<std::int64_t, Shape::kMaxRank> strides, std::int64_t offset = 0) {
  return {offset, strides};
}
// The layout within [begin, end) along an axis, and 0 elsewhere.
inline Layout bounded(Layout layout, std::size_t axis, std::int64_t begin, std::int64_t end) {
  layout.offset -= begin * layout.strides[axis];
  layout.bounds[axis] = {begin, end};
  return layout;
}

// A tensor whose memory is chosen later.
inline Tensor unplaced(DType dtype, const Shape& shape) {
  static char nowhere = 0;
  return {&nowhere, dtype, shape, Device()};
}

// Builds an expression; on_device() adds the memory.
class ExpressionCase {
 public:
  using Value = std::uint16_t;

  ExpressionCase(std::string name, const Shape& space, std::size_t reduced = 0) : name(std::move(name)) {
    expression.space = space;
    expression.reduced = reduced;
  }

  std::string name;
  Expression expression;
  std::vector<Array> inputs;                            // of the reads
  std::vector<std::pair<DType, std::int64_t>> outputs;  // dtype and elements of the writes
  std::vector<int> output_is_input;                     // or -1

  Value read(const Array& array, const Layout& layout) {
    inputs.push_back(array);
    expression.reads.push_back({unplaced(array.dtype, array.shape), layout});
    Instruction i;
    i.dtype = array.dtype;
    i.index = static_cast<std::uint16_t>(expression.reads.size() - 1);
    return push(i);
  }
  Value read(const Array& array) { return read(array, row_major(array.shape)); }
  Value constant(DType dtype, double number) {
    Instruction i;
    i.kind = Instruction::Kind::constant, i.dtype = dtype, i.number = number;
    i.integer = static_cast<std::int64_t>(number);
    return push(i);
  }
  Value place(const Layout& layout) {
    expression.places.push_back(layout);
    Instruction i;
    i.kind = Instruction::Kind::place, i.dtype = DType::i64;
    i.index = static_cast<std::uint16_t>(expression.places.size() - 1);
    return push(i);
  }
  Value apply(const TestFunction& function, Value a, Value b = 0, Value c = 0) {
    Instruction i;
    i.kind = Instruction::Kind::apply, i.operands = {a, b, c}, i.function = &function.function;
    i.dtype = function.function.rules.result(expression.code[function.function.inputs == 3 ? b : a].dtype);
    functions_.resize(expression.code.size() + 1);
    functions_.back() = &function;
    return push(i);
  }
  Value cast(DType dtype, Value a) {
    Instruction i;
    i.kind = Instruction::Kind::cast, i.dtype = dtype, i.operands = {a};
    return push(i);
  }
  Value reduce(Combiner combiner, Value a) {
    DType dtype = expression.code[a].dtype;
    if (combiner == Combiner::argmax || combiner == Combiner::argmin) dtype = DType::i64;
    if (combiner == Combiner::any || combiner == Combiner::all) dtype = DType::boolean;
    if (combiner == Combiner::sum && dtype == DType::boolean) dtype = DType::i64;
    Instruction i;
    i.kind = Instruction::Kind::reduce, i.dtype = dtype, i.operands = {a}, i.combiner = combiner;
    return push(i);
  }
  // Writes into an array of `elements` elements, or over an input.
  void write(Value value, const Layout& layout, std::int64_t elements, int input = -1) {
    const DType dtype = expression.code[value].dtype;
    outputs.push_back({dtype, elements});
    output_is_input.push_back(input);
    expression.writes.push_back({{unplaced(dtype, {elements}), layout}, value});
  }
  // Row-major: write() writes all elements, write_row() only one per row.
  void write(Value value) { write(value, row_major(expression.space), expression.space.count()); }
  void write_row(Value value) {
    const auto rows = Shape({expression.space.begin(), expression.space.rank() - expression.reduced});
    write(value, row_major(rows), rows.count());
  }

  // The values of each output. Elements that are not written hold `unwritten`.
  std::vector<Expected> expected(double unwritten) const;

 private:
  struct Number {
    double value = 0, error = 0;
  };
  Value push(const Instruction& i) {
    expression.code.push_back(i);
    functions_.resize(expression.code.size());
    return static_cast<Value>(expression.code.size() - 1);
  }
  std::vector<std::int64_t> coordinates(std::int64_t row, std::int64_t place) const;
  std::int64_t count(std::size_t begin, std::size_t end) const;
  static std::int64_t at(const Layout& layout, const std::vector<std::int64_t>& c) {
    std::int64_t place = layout.offset;
    for (std::size_t axis = 0; axis < c.size(); ++axis) place += c[axis] * layout.strides[axis];
    return place;
  }
  static bool is_there(const Layout& layout, const std::vector<std::int64_t>& c) {
    for (std::size_t axis = 0; axis < c.size(); ++axis) {
      if (c[axis] < layout.bounds[axis].begin || c[axis] >= layout.bounds[axis].end) return false;
    }
    return true;
  }
  static Number stored(DType dtype, Number x, double units);
  Number applied(std::size_t i, const std::vector<Number>& values) const;
  Number reduced(const Instruction& i, const std::vector<Number>& elements) const;
  Number of(std::size_t i, const std::vector<Number>& values, const std::vector<std::int64_t>& c) const;

  std::vector<const TestFunction*> functions_;  // by instruction
};

// The coordinates of element number `place` of a row.
inline std::vector<std::int64_t> ExpressionCase::coordinates(std::int64_t row, std::int64_t place) const {
  std::vector<std::int64_t> c(expression.space.rank());
  for (std::size_t axis = c.size(); axis-- > 0;) {
    std::int64_t& index = axis >= c.size() - expression.reduced ? place : row;
    const std::int64_t size = std::max<std::int64_t>(expression.space[static_cast<int>(axis)], 1);
    c[axis] = index % size;
    index /= size;
  }
  return c;
}

inline std::int64_t ExpressionCase::count(std::size_t begin, std::size_t end) const {
  std::int64_t count = 1;
  for (std::size_t axis = begin; axis < end; ++axis) count *= expression.space[static_cast<int>(axis)];
  return count;
}

// Adds one more rounding, by `units` of 2^-24 (2^-53 for f64), and then the rounding to 16 bits. A result of exact
// operands with a single rounding is known to the bit.
inline ExpressionCase::Number ExpressionCase::stored(DType dtype, Number x, double units) {
  if (!is_floating(dtype) || !std::isfinite(x.value)) return x;
  const DType computed = dtype == DType::f64 ? DType::f64 : DType::f32;
  if (x.error == 0 && units <= 1) return {round_to(dtype, round_to(computed, x.value)), 0};
  const double tiny = computed == DType::f32 ? 0x1p-149 : 0;
  x.error += units * unit_roundoff(computed) * (std::abs(x.value) + x.error) + (units > 0 ? tiny : 0);
  x.error += storage_error(dtype, std::abs(x.value) + x.error);
  return x;
}

inline ExpressionCase::Number ExpressionCase::applied(std::size_t i, const std::vector<Number>& values) const {
  const Instruction& instruction = expression.code[i];
  const TestFunction& f = *functions_[i];
  std::array<Number, 3> in;
  for (int k = 0; k < f.function.inputs; ++k)
    in[static_cast<std::size_t>(k)] = values[instruction.operands[static_cast<std::size_t>(k)]];
  Number y{f.value(in[0].value, in[1].value, in[2].value)};
  // The functions here are monotone in each argument, so the ends of the intervals bound the propagated errors.
  for (int corner = 0; corner < 8; ++corner) {
    const auto end = [&](std::size_t k) { return in[k].value + (corner >> k & 1 ? in[k].error : -in[k].error); };
    y.error = std::max(y.error, std::abs(f.value(end(0), end(1), end(2)) - y.value));
  }
  if (!is_floating(instruction.dtype)) {  // wraps around
    if (instruction.dtype == DType::u8) y.value -= 256 * std::floor(y.value / 256);
    return y;
  }
  return stored(instruction.dtype, y, instruction.dtype == DType::f64 && f.error > 1 ? 8 : f.error);
}

inline ExpressionCase::Number ExpressionCase::reduced(const Instruction& i, const std::vector<Number>& elements) const {
  Number y;
  double magnitude = 0;
  long double total = 0;
  const auto best = [&](bool largest) {
    std::size_t place = 0;
    for (std::size_t k = 1; k < elements.size() && !std::isnan(elements[place].value); ++k) {
      const double x = elements[k].value, so_far = elements[place].value;
      if (std::isnan(x) || (largest ? x > so_far : x < so_far)) place = k;
    }
    return place;
  };
  switch (i.combiner) {
    case Combiner::sum:
      for (const Number& x : elements) total += x.value, y.error += x.error, magnitude += std::abs(x.value);
      y.value = static_cast<double>(total);
      break;
    case Combiner::product:
      y.value = 1;
      for (const Number& x : elements) y.value *= x.value;
      magnitude = std::abs(y.value);
      break;
    case Combiner::max:
    case Combiner::min:
      y.value = i.combiner == Combiner::max ? -kInfinity : kInfinity;
      if (!elements.empty()) y.value = elements[best(i.combiner == Combiner::max)].value;
      for (const Number& x : elements) y.error = std::max(y.error, x.error);
      return y;
    case Combiner::any:
    case Combiner::all: {
      const auto is_true = [](const Number& x) { return x.value != 0; };
      y.value = i.combiner == Combiner::any ? std::any_of(elements.begin(), elements.end(), is_true)
                                            : std::all_of(elements.begin(), elements.end(), is_true);
      return y;
    }
    case Combiner::argmax:
    case Combiner::argmin:
      y.value = static_cast<double>(best(i.combiner == Combiner::argmax));
      return y;
  }
  if (!is_floating(i.dtype)) {
    if (i.dtype == DType::u8) y.value -= 256 * std::floor(y.value / 256);
    return y;
  }
  // Seven additions in a unit of 8, a tree of 7 levels up to 1024 elements in f32, and double beyond that. The last
  // rounding is to f32. f64 uses a tree of at most 30 levels.
  const double roundings = i.dtype == DType::f64 ? 7 + 30 : 7 + 7 + 1;
  const DType computed = i.dtype == DType::f64 ? DType::f64 : DType::f32;
  y.error += 1.01 * roundings * unit_roundoff(computed) * (magnitude + y.error);
  return stored(i.dtype, y, 0);
}

inline ExpressionCase::Number ExpressionCase::of(std::size_t i, const std::vector<Number>& values,
                                                 const std::vector<std::int64_t>& c) const {
  const Instruction& instruction = expression.code[i];
  switch (instruction.kind) {
    case Instruction::Kind::read:
      if (inputs[instruction.index].values.empty()) return {};
      if (!is_there(expression.reads[instruction.index].layout, c)) return {};
      return {inputs[instruction.index]
                  .values[static_cast<std::size_t>(at(expression.reads[instruction.index].layout, c))]};
    case Instruction::Kind::constant:
      return is_floating(instruction.dtype) ? stored(instruction.dtype, {instruction.number}, 1)
                                            : Number{static_cast<double>(instruction.integer)};
    case Instruction::Kind::place:
      return {static_cast<double>(at(expression.places[instruction.index], c))};
    case Instruction::Kind::apply:
      return applied(i, values);
    case Instruction::Kind::cast: {
      const Number x = values[instruction.operands[0]];
      if (instruction.dtype == DType::boolean) return {x.value != 0 ? 1.0 : 0.0};
      if (!is_floating(instruction.dtype)) return {std::trunc(x.value)};
      return stored(instruction.dtype, x, 1);
    }
    case Instruction::Kind::reduce:
      break;
  }
  return values[i];
}

inline std::vector<Expected> ExpressionCase::expected(double unwritten) const {
  const std::size_t rank = expression.space.rank();
  const std::int64_t rows = count(0, rank - expression.reduced), length = count(rank - expression.reduced, rank);
  const std::int64_t places = std::max<std::int64_t>(length, 1);  // an empty row also has values

  std::vector<Expected> results;
  for (std::size_t w = 0; w < outputs.size(); ++w) {
    Expected& result = results.emplace_back();
    for (std::int64_t k = 0; k < outputs[w].second; ++k) result.add(unwritten, 0);
    if (output_is_input[w] >= 0) result.values = inputs[static_cast<std::size_t>(output_is_input[w])].values;
    result.tolerances.resize(result.values.size());
  }
  std::vector<std::vector<Number>> values(static_cast<std::size_t>(places),
                                          std::vector<Number>(expression.code.size()));
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::size_t i = 0; i < expression.code.size(); ++i) {
      const Instruction& instruction = expression.code[i];
      Number joined;
      if (instruction.kind == Instruction::Kind::reduce) {
        std::vector<Number> elements;
        for (std::int64_t k = 0; k < length; ++k) {
          elements.push_back(values[static_cast<std::size_t>(k)][instruction.operands[0]]);
        }
        joined = reduced(instruction, elements);
      }
      for (std::int64_t k = 0; k < places; ++k) {
        auto& element = values[static_cast<std::size_t>(k)];
        element[i] = instruction.kind == Instruction::Kind::reduce ? joined : of(i, element, coordinates(row, k));
      }
    }
    for (std::size_t w = 0; w < outputs.size(); ++w) {
      for (std::int64_t k = 0; k < places; ++k) {
        const auto place = static_cast<std::size_t>(at(expression.writes[w].to.layout, coordinates(row, k)));
        const Number& x = values[static_cast<std::size_t>(k)][expression.writes[w].value];
        results[w].values[place] = x.value, results[w].tolerances[place] = x.error;
      }
    }
  }
  return results;
}

}  // namespace giro::test
