#include <giro/kernels/nn/random.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <giro/kernels/nn/functional.h>

#include "kernels/nn/apply.h"
#include "kernels/nn/arguments.h"
#include "runtime/call_site.h"
#include "runtime/throw_error.h"

namespace giro::nn {
namespace {

using expr::broadcast_layout;
using expr::Builder;
using expr::ScalarFunction;
using expr::Term;

// The same scalar for each element.
Term scalar(Builder& builder, const Operand& x) {
  return x.is_number ? builder.constant(DType::i64, 0, x.integer) : builder.read(x.var.value(), {}).cast(DType::i64);
}

Term scalar(Builder& builder, const Key& key) {
  const Term base = scalar(builder, key.base);
  return key.node == 0 ? base : base + key.node;
}

// The random number of each element of an array, drawn from the key.
Term drawn(Builder& builder, const ScalarFunction& distribution, const Key& key, const Shape& shape) {
  expr::Layout layout = broadcast_layout(shape, shape);
  const std::int64_t rows = key.rows > 0 ? key.rows : shape.rank() > 0 ? shape[0] : 0;
  if (rows > 0 && shape.count() % rows == 0) layout.offset = key.first_row * (shape.count() / rows);
  const Term place = builder.place(layout);
  return Term::apply(distribution, {scalar(builder, key), place});
}

// The values that an op with a key and another argument takes. Expects one of them on a stream.
std::vector<Var> arguments_of(const char* op, const Key& key, const Operand& other = 0) {
  expect_key(op, key.base);
  std::vector<Var> values = values_of({key.base, other});
  if (std::ranges::any_of(values, &Var::has_stream)) return values;
  throw_invalid(
      "{}: no argument is on a stream, expected a key such as s.key(\"noise\") of a scope, or fold_in(number, "
      "nn::Var(state.at(\"step\"), state.stream()))",
      op);
}

}  // namespace

Key fold_in(const Key& key, const Operand& data) {
  const detail::CallSite site(key.base.where);
  expect_scalar("fold_in", "number", data);
  const Var y = Var::computed(DType::i64, {}, arguments_of("fold_in", key, data), nullptr);
  Builder builder({});
  Key folded = write("fold_in", Term::apply(expr::functions::key_by_key, {scalar(builder, key), scalar(builder, data)}),
                     builder, y);
  folded.first_row = key.first_row;
  folded.rows = key.rows;
  return folded;
}

Var random_uniform(const Key& key, const Shape& shape, double low, double high) {
  const detail::CallSite site(key.base.where);
  const std::vector<Var> from = arguments_of("random_uniform", key);
  const auto end = static_cast<float>(high);
  if (!(static_cast<float>(low) < end) || !std::isfinite(static_cast<float>(high - low))) {
    throw_invalid("random_uniform: found [{}, {}), expected low < high", low, high);
  }
  const Var y = Var::computed(DType::f32, shape, from, nullptr);
  Builder builder(shape);
  Term u = drawn(builder, expr::functions::uniform_by_key, key, shape);
  // The sum may round up to the end.
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (low != 0 || high != 1) u = minimum(low + (high - low) * u, std::nextafter(end, -kInfinity));
  return write("random_uniform", u, builder, y);
}

Var random_normal(const Key& key, const Shape& shape, double mean, double stddev) {
  const detail::CallSite site(key.base.where);
  const std::vector<Var> from = arguments_of("random_normal", key);
  if (!(stddev >= 0)) throw_invalid("random_normal: a standard deviation of {}, expected 0 or more", stddev);
  const Var y = Var::computed(DType::f32, shape, from, nullptr);
  Builder builder(shape);
  Term z = drawn(builder, expr::functions::normal_by_key, key, shape);
  if (mean != 0 || stddev != 1) z = mean + stddev * z;
  return write("random_normal", z, builder, y);
}

Var random_bernoulli(const Key& key, const Operand& p, const Shape& shape) {
  const detail::CallSite site(key.base.where);
  const std::vector<Var> from = arguments_of("random_bernoulli", key, p);
  if (p.is_number && !(p.number >= 0 && p.number <= 1)) {
    throw_invalid("random_bernoulli: a probability of {}, expected one from 0 to 1", p.number);
  }
  if (!p.is_number) expect_broadcasts("random_bernoulli", p.var.shape(), shape);
  const Var y = Var::computed(DType::boolean, shape, from, nullptr);
  Builder builder(shape);
  const Term u = drawn(builder, expr::functions::uniform_by_key, key, shape);
  const Term limit = p.is_number ? Term(p.number)
                                 : builder.read(p.var.value(), broadcast_layout(p.var.shape(), shape)).cast(DType::f32);
  return write("random_bernoulli", u < limit, builder, y);
}

Var dropout(const Operand& x, double rate, const Key& key) {
  const ValueCall call("dropout", x);
  const DType dtype = x.var.dtype();
  if (!is_floating(dtype)) {
    throw_error(ErrorCode::dtype_mismatch, "dropout: found {}, expected a floating dtype", name_of(dtype));
  }
  expect_key("dropout", key.base);
  if (!(rate >= 0 && rate < 1)) throw_invalid("dropout: a rate of {}, expected one in [0, 1)", rate);
  if (rate == 0) return x.var;
  // The inputs hold the key if it is a Var.
  Key again = key;
  if (!key.base.is_number) again.base = Operand(0);
  const auto gradient = [rate, again](const Var&, const Var& dy, const std::vector<Var>& in) {
    std::vector<Var> terms(in.size());
    Key drawn_from = again;
    if (in.size() > 1) drawn_from.base = in[1];
    terms[0] = dropout(dy, rate, drawn_from);
    return Gradients(std::move(terms));
  };
  const Shape& shape = x.var.shape();
  const Var y = Var::computed(dtype, shape, values_of({x, key.base}), gradient);
  Builder builder(shape);
  const DType computed = expr::computed_in(dtype);
  const Term in = builder.read(x.var.value(), broadcast_layout(shape, shape)).cast(computed);
  const Term is_kept = drawn(builder, expr::functions::uniform_by_key, key, shape) < 1 - rate;
  return write("dropout", where(is_kept, in * (1 / (1 - rate)), 0).cast(dtype), builder, y);
}

}  // namespace giro::nn
