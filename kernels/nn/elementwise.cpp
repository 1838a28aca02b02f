#include <giro/kernels/nn/elementwise.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include <giro/kernels/nn/part_calls.h>
#include <giro/kernels/nn/reduce.h>

#include "kernels/nn/apply.h"
#include "kernels/nn/arguments.h"
#include "runtime/call_site.h"
#include "runtime/throw_error.h"

namespace giro::nn {
namespace {

using expr::Builder;
using expr::Layout;
using expr::ScalarFunction;
using expr::Takes;
using expr::Term;

std::string names_of(Takes set) {
  std::string names;
  for (const DType dtype :
       {DType::f32, DType::bf16, DType::f16, DType::f64, DType::i32, DType::i64, DType::u8, DType::boolean}) {
    if (takes(set, dtype)) names += fmt::format("{}{}", names.empty() ? "" : ", ", name_of(dtype));
  }
  return names;
}

// The dtype that the operands are converted to, except for the condition of a select.
DType common_dtype(const ScalarFunction& function, const std::vector<Operand>& operands) {
  const Takes set = function.rules.takes;
  std::optional<DType> common;
  bool has_number = false, has_fraction = false;
  for (std::size_t i = set == Takes::select ? 1 : 0; i < operands.size(); ++i) {
    if (operands[i].is_number) {
      has_number = true;
      has_fraction |= operands[i].is_fraction;
    } else {
      common = common ? promoted(*common, operands[i].var.dtype()) : operands[i].var.dtype();
    }
  }
  DType dtype = common.value_or(has_fraction ? DType::f32 : DType::i64);
  if (!is_floating(dtype) && (has_fraction || set == Takes::floating)) dtype = DType::f32;
  if (dtype == DType::boolean && (has_number || set == Takes::numbers)) dtype = DType::i32;
  if (!takes(set, dtype)) {
    throw_error(ErrorCode::dtype_mismatch, "{}: found {}, expected one of {}", function.name, name_of(dtype),
                names_of(set));
  }
  for (const Operand& operand : operands) {
    if (operand.is_number) expect_fits(function.name, operand.number, dtype);
  }
  return dtype;
}

Shape common_shape(const char* op, const std::vector<Operand>& operands) {
  std::vector<std::int64_t> sizes;
  for (const Operand& operand : operands) {
    if (operand.is_number) continue;
    const Shape& shape = operand.var.shape();
    if (shape.rank() > sizes.size()) sizes.insert(sizes.begin(), shape.rank() - sizes.size(), 1);
    for (std::size_t i = 0; i < shape.rank(); ++i) {
      std::int64_t& size = sizes[sizes.size() - shape.rank() + i];
      const std::int64_t own = shape.begin()[i];
      if (size != 1 && own != 1 && own != size) {
        std::string shapes;
        for (const Operand& each : operands) {
          if (!each.is_number) shapes += (shapes.empty() ? "" : " and ") + to_string(each.var.shape());
        }
        throw_shape("{}: the shapes {} do not broadcast: axis {} from the end is {} and {}, expected equal sizes or 1",
                    op, shapes, shape.rank() - i, size, own);
      }
      if (size == 1) size = own;
    }
  }
  return Shape(sizes);
}

// The function's gradients with respect to its values, or null if it has none.
Gradient gradient_of(const ScalarFunction& function, const std::vector<Operand>& operands) {
  const auto& terms = function.rules.gradients;
  if (std::none_of(terms.begin(), terms.end(), [](auto term) { return term != nullptr; })) return nullptr;
  std::vector<Operand> numbers = operands;
  for (Operand& operand : numbers) operand.var = Var();  // the node holds the inputs
  return [&function, numbers](const Var& y, const Var& dy, const std::vector<Var>& in) {
    std::vector<Operand> all = numbers;
    std::size_t next = 0;
    for (Operand& operand : all) {
      if (!operand.is_number) operand.var = in[next++];
    }
    all.resize(3, Operand(Var()));
    std::vector<Var> result;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (numbers[i].is_number) continue;
      const Var& input = in[result.size()];
      const expr::ScalarGradient term = function.rules.gradients[i];
      result.push_back(term != nullptr && input.requires_grad()
                           ? sum_to(term(all[0], all[1], all[2], y, dy), input.shape())
                           : Var());
    }
    return Gradients(std::move(result));
  };
}

// Whether the result for sums is a sum. A division makes it a mean.
bool adds_or_scales(const ScalarFunction& function, const std::vector<Operand>& operands) {
  namespace functions = expr::functions;
  if (&function == &functions::multiply) return operands[0].is_number || operands[1].is_number;
  return &function == &functions::add || &function == &functions::subtract || &function == &functions::negate;
}

}  // namespace

Var sum_to(const Var& term, const Shape& shape) {
  if (term.shape() == shape) return term;
  std::vector<int> axes;
  const std::size_t more = term.shape().rank() - shape.rank();
  for (std::size_t i = 0; i < term.shape().rank(); ++i) {
    if (i < more || (shape.begin()[i - more] == 1 && term.shape().begin()[i] != 1)) axes.push_back(static_cast<int>(i));
  }
  return sum(term, Axes(axes)).reshape(shape);
}

Var write(const char* op, const Term& value, Builder& builder, const Var& y) {
  value.write(y.value(), expr::broadcast_layout(y.shape(), y.shape()));
  queue(op, std::move(builder).take(), y.stream());
  return y;
}

Var view(const char* name, const Var& x, const Shape& shape, const Layout& layout, Gradient gradient) {
  Var y = Var::computed(x.dtype(), shape, {x}, std::move(gradient));
  Builder builder(shape);
  return write(name, builder.read(x.value(), layout), builder, y);
}

Var apply(const ScalarFunction& function, const std::vector<Operand>& operands) {
  const detail::CallSite site(operands.front().where);
  const bool selects = function.rules.takes == Takes::select;
  if (selects && (operands.front().is_number || operands.front().var.dtype() != DType::boolean)) {
    throw_error(ErrorCode::dtype_mismatch, "{}: the condition is {}, expected bool", function.name,
                operands.front().is_number ? "a number" : name_of(operands.front().var.dtype()));
  }
  if (function.rules.takes == Takes::integers && operands.back().is_number && operands.back().number == 0) {
    throw_invalid("{}: integer division by the number 0", function.name);
  }
  const DType dtype = common_dtype(function, operands);
  const DType result = function.rules.result(dtype);
  const Shape shape = common_shape(function.name, operands);
  Var y = Var::computed(result, shape, values_of(operands), gradient_of(function, operands));
  Builder builder(shape);
  std::vector<Term> terms;
  for (const Operand& operand : operands) {
    if (operand.is_number) {
      terms.push_back(builder.constant(dtype, operand.number, operand.integer));
    } else {
      const Term read = builder.read(operand.var.value(), expr::broadcast_layout(operand.var.shape(), shape));
      terms.push_back(selects && terms.empty() ? read : read.cast(dtype));
    }
  }
  write(function.name, Term::apply(function, terms), builder, y);
  if (adds_or_scales(function, operands)) PartCalls::note_total(y, PartCalls::Total::of_inputs);
  return y;
}

Var clamp(const Operand& a, const Operand& lowest, const Operand& highest) {
  const detail::CallSite site(a.where);
  return minimum(maximum(a, lowest), highest);
}

Var broadcast_to(const Operand& x, const Shape& shape) {
  const ValueCall call("broadcast_to", x);
  const Shape& from = x.var.shape();
  expect_broadcasts("broadcast_to", from, shape);
  if (from == shape) return x.var;
  return view("broadcast_to", x.var, shape, expr::broadcast_layout(from, shape),
              [](const Var&, const Var& dy, const std::vector<Var>& in) { return sum_to(dy, in.front().shape()); });
}

Var transpose(const Operand& x, const std::vector<int>& axes) {
  const ValueCall call("transpose", x);
  const Shape& from = x.var.shape();
  std::vector<int> order = axes;
  if (axes.empty()) {
    order.resize(from.rank());
    std::iota(order.rbegin(), order.rend(), 0);
  }
  const std::vector<std::size_t> places = checked_axes("transpose", from, order);
  if (places.size() != from.rank()) {
    throw_invalid("transpose: {} axes of {}, expected all {}", places.size(), to_string(from), from.rank());
  }
  const Layout own = expr::broadcast_layout(from, from);
  Layout layout;
  std::vector<std::int64_t> sizes;
  std::vector<int> inverse(places.size());
  for (std::size_t i = 0; i < places.size(); ++i) {
    layout.strides[i] = own.strides[places[i]];
    sizes.push_back(from.begin()[places[i]]);
    inverse[places[i]] = static_cast<int>(i);
  }
  return view("transpose", x.var, Shape(sizes), layout, [inverse](const Var&, const Var& dy, const std::vector<Var>&) {
    return inverse.empty() ? dy : transpose(dy, inverse);
  });
}

Var flip(const Operand& x, const std::vector<int>& axes) {
  const ValueCall call("flip", x);
  const Shape& shape = x.var.shape();
  Layout layout = expr::broadcast_layout(shape, shape);
  for (const std::size_t axis : checked_axes("flip", shape, axes)) {
    layout.offset += layout.strides[axis] * (shape.begin()[axis] - 1);
    layout.strides[axis] = -layout.strides[axis];
  }
  return view("flip", x.var, shape, layout,
              [axes](const Var&, const Var& dy, const std::vector<Var>&) { return flip(dy, axes); });
}

}  // namespace giro::nn
