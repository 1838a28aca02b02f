#include <giro/kernels/nn/reduce.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include <giro/kernels/nn/elementwise.h>
#include <giro/kernels/nn/functional.h>
#include <giro/kernels/nn/part_calls.h>
#include <giro/runtime/error.h>

#include "kernels/nn/apply.h"
#include "kernels/nn/arguments.h"
#include "kernels/scatter_op.h"
#include "runtime/call_site.h"
#include "runtime/throw_error.h"

namespace giro::nn {
namespace {

using expr::Builder;
using expr::Combiner;
using expr::Layout;
using expr::Term;

// A shape with its reduced axes moved last, as an expression's space needs them.
struct Reduction {
  Reduction(const char* op, const Shape& from, const Axes& axes) {
    if (axes.all()) is_reduced.fill(true);
    for (const std::size_t axis : checked_axes(op, from, axes.axes())) is_reduced[axis] = true;
    const Layout own = expr::broadcast_layout(from, from);
    std::vector<std::int64_t> sizes, with_ones, without;
    for (const bool last : {false, true}) {
      for (std::size_t i = 0; i < from.rank(); ++i) {
        if (is_reduced[i] != last) continue;
        read.strides[sizes.size()] = own.strides[i];
        sizes.push_back(from.begin()[i]);
        if (last) count *= from.begin()[i], ++reduced;
      }
    }
    for (std::size_t i = 0; i < from.rank(); ++i) {
      with_ones.push_back(is_reduced[i] ? 1 : from.begin()[i]);
      if (!is_reduced[i]) without.push_back(from.begin()[i]);
    }
    space = Shape(sizes);
    kept = Shape(with_ones);
    result = axes.kept() ? kept : Shape(without);
    write = expr::broadcast_layout(Shape(without), Shape(without));
  }

  std::array<bool, Shape::kMaxRank> is_reduced{};
  Shape space;
  std::size_t reduced = 0;
  Layout read, write;
  Shape kept, result;      // with axes of size 1, and as requested
  std::int64_t count = 1;  // elements reduced to one
};

// `divisor`: for a mean.
Var reduce(const char* op, Combiner combiner, const Operand& x, DType computed, DType dtype, const Axes& axes,
           Gradient gradient, std::optional<double> divisor = {}) {
  const Reduction reduction(op, x.var.shape(), axes);
  const bool chooses = combiner == Combiner::max || combiner == Combiner::min || combiner == Combiner::argmax ||
                       combiner == Combiner::argmin;
  if (chooses && reduction.count == 0 && reduction.result.count() > 0) {
    throw_invalid("{}: found {}, expected at least one element along the axes", op, to_string(x.var.shape()));
  }
  if (!is_floating(x.var.dtype())) gradient = nullptr;
  Var y = Var::computed(dtype, reduction.result, {x.var}, std::move(gradient));
  Builder builder(reduction.space, reduction.reduced);
  const Term element = builder.read(x.var.value(), reduction.read).cast(computed);
  Term result = element.reduce(combiner, dtype);
  if (divisor) result = result / *divisor;
  result.write(y.value(), reduction.write);
  queue(op, std::move(builder).take(), y.stream());
  return y;
}

// Broadcasts a reduced value to the elements it was reduced from.
Var broadcast_reduced(const Var& reduced, const Shape& shape, const Axes& axes) {
  return broadcast_to(reduced.reshape(Reduction("reduce", shape, axes).kept), shape);
}

Var choose(const char* op, Combiner combiner, const Operand& x, const Axes& axes) {
  const ValueCall call(op, x);
  const DType dtype = x.var.dtype();
  if (dtype == DType::boolean) {
    throw_error(ErrorCode::dtype_mismatch, "{}: found bool, expected a numeric dtype; see any and all", op);
  }
  // Equal elements share the gradient.
  const auto gradient = [axes](const Var& y, const Var& dy, const std::vector<Var>& in) {
    const Shape& shape = in.front().shape();
    const Var chosen = cast(equal(in.front(), broadcast_reduced(y, shape, axes)), DType::f32);
    const Var each = dy / sum(chosen, axes);
    return broadcast_reduced(each, shape, axes) * chosen;
  };
  return reduce(op, combiner, x, dtype, dtype, axes, gradient);
}

Var arg_reduce(const char* op, Combiner combiner, const Operand& x, const Axes& axes) {
  const ValueCall call(op, x);
  return reduce(op, combiner, x, x.var.dtype(), DType::i64, axes, nullptr);
}

Var test(const char* op, Combiner combiner, const Operand& x, const Axes& axes) {
  const ValueCall call(op, x);
  if (x.var.dtype() != DType::boolean) {
    throw_error(ErrorCode::dtype_mismatch, "{}: found {}, expected bool", op, name_of(x.var.dtype()));
  }
  return reduce(op, combiner, x, DType::boolean, DType::boolean, axes, nullptr);
}

// f32 for bf16, f16 and integers, whose differences could wrap.
Var as_floats(const Var& x) { return is_floating(x.dtype()) && !is_16_bit(x.dtype()) ? x : cast(x, DType::f32); }

// How far below the largest element each one is.
Var below_largest(const char* op, const Var& x, const Axes& axes) {
  const Var floats = as_floats(x);
  if (Reduction(op, x.shape(), axes).count == 0) return floats;
  return floats - broadcast_reduced(stop_gradient(max(floats, axes)), x.shape(), axes);
}

}  // namespace

Var sum(const Operand& x, const Axes& axes) {
  const ValueCall call("sum", x);
  const DType dtype = ops::dtype_of_sums(x.var.dtype());
  const auto gradient = [axes](const Var&, const Var& dy, const std::vector<Var>& in) {
    return broadcast_reduced(dy, in.front().shape(), axes);
  };
  const Var y = reduce("sum", Combiner::sum, x, dtype, dtype, axes, gradient);
  PartCalls::note_total(y, PartCalls::Total::sum);
  y.set_direction(x.var.direction());
  return y;
}

Var mean(const Operand& x, const Axes& axes) {
  const ValueCall call("mean", x);
  const DType dtype = is_floating(x.var.dtype()) ? ops::dtype_of_sums(x.var.dtype()) : DType::f32;
  const Reduction reduction("mean", x.var.shape(), axes);
  const auto count = static_cast<double>(reduction.count);
  const auto gradient = [axes, count](const Var&, const Var& dy, const std::vector<Var>& in) {
    return broadcast_reduced(dy / count, in.front().shape(), axes);
  };
  const Var y = reduce("mean", Combiner::sum, x, dtype, dtype, axes, gradient, count);
  if (reduction.is_reduced[0]) PartCalls::note_total(y, PartCalls::Total::mean_of_rows);
  y.set_direction(x.var.direction());
  return y;
}

Var product(const Operand& x, const Axes& axes) {
  const ValueCall call("product", x);
  const DType dtype = ops::dtype_of_sums(x.var.dtype());
  // The gradient of an element is the product of the others. For a zero it is their product if it is the only zero,
  // else 0.
  const auto gradient = [axes](const Var&, const Var& dy, const std::vector<Var>& in) {
    const Shape& shape = in.front().shape();
    const Var is_zero = in.front() == 0;
    const Var others = product(where(is_zero, 1, in.front()), axes), zeros = sum(is_zero, axes);
    const Var without =
        where(is_zero, broadcast_reduced(where(zeros == 1, others, 0), shape, axes),
              broadcast_reduced(where(zeros == 0, others, 0), shape, axes) / where(is_zero, 1, in.front()));
    return broadcast_reduced(dy, shape, axes) * without;
  };
  return reduce("product", Combiner::product, x, dtype, dtype, axes, gradient);
}

Var max(const Operand& x, const Axes& axes) { return choose("max", Combiner::max, x, axes); }
Var min(const Operand& x, const Axes& axes) { return choose("min", Combiner::min, x, axes); }
Var argmax(const Operand& x, const Axes& axes) { return arg_reduce("argmax", Combiner::argmax, x, axes); }
Var argmin(const Operand& x, const Axes& axes) { return arg_reduce("argmin", Combiner::argmin, x, axes); }
Var any(const Operand& x, const Axes& axes) { return test("any", Combiner::any, x, axes); }
Var all(const Operand& x, const Axes& axes) { return test("all", Combiner::all, x, axes); }

Var logsumexp(const Operand& x, const Axes& axes) {
  const ValueCall call("logsumexp", x);
  const Var floats = as_floats(x.var);
  if (Reduction("logsumexp", x.var.shape(), axes).count == 0) return log(sum(floats, axes));  // of none: log(0)
  const Var largest = stop_gradient(max(floats, axes));
  const Var shift = where(is_finite(largest), largest, 0);  // infinities are not shifted: they give the right infinity
  return log(sum(exp(floats - broadcast_reduced(shift, x.var.shape(), axes)), axes)) + shift;
}

Var log_softmax(const Operand& x, const Axes& axes) {
  const ValueCall call("log_softmax", x);
  const Var below = below_largest("log_softmax", x.var, axes);
  return below - broadcast_reduced(log(sum(exp(below), axes)), x.var.shape(), axes);
}

Var softmax(const Operand& x, const Axes& axes) {
  const ValueCall call("softmax", x);
  const Var terms = exp(below_largest("softmax", x.var, axes));
  return terms / broadcast_reduced(sum(terms, axes), x.var.shape(), axes);
}

Var variance(const Operand& x, const Axes& axes) {
  const ValueCall call("variance", x);
  (void)Reduction("variance", x.var.shape(), axes);  // for errors that name it
  return mean(square(x.var - broadcast_reduced(mean(x, axes), x.var.shape(), axes)), axes);
}

Var norm(const char* op, const Operand& x, const Axes& axes) {
  const ValueCall call(op, x);
  const Var length = sqrt(sum(square(cast(stop_gradient(x.var), DType::f64)), axes));
  const auto gradient = [axes](const Var& y, const Var& dy, const std::vector<Var>& in) {
    const Shape& shape = in.front().shape();
    const Var whole = broadcast_reduced(y, shape, axes);
    return broadcast_reduced(dy, shape, axes) * (in.front() / where(whole == 0, 1, whole));
  };
  return with_gradient(x.var.dtype() == DType::f64 ? length : cast(length, DType::f32), {x.var}, gradient);
}

Var mean(const std::vector<Var>& scalars, Where where) {
  const detail::CallSite site(where);
  if (scalars.empty()) throw_invalid("mean: expected at least one value, found none");
  Var sum = scalars.front();
  for (std::size_t i = 1; i < scalars.size(); ++i) sum = sum + scalars[i];
  const Var mean = sum / static_cast<double>(scalars.size());
  const bool agree = std::ranges::all_of(
      scalars, [&](const Var& scalar) { return scalar.direction() == scalars.front().direction(); });
  if (agree) mean.set_direction(scalars.front().direction());
  return mean;
}

}  // namespace giro::nn
