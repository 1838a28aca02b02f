#include "kernels/elementwise.h"

namespace giro::ops {
namespace {

// Reduces all elements to one; f builds the result from an element.
template <class F>
void reduce(const char* op, const Tensor& out, const Tensor& x, const Stream& stream, const F& f) {
  const Shape space{x.count()};
  expr::Builder code(space, 1);
  f(expr::Term(code, code.read(x, expr::broadcast_layout(space, space)))).write(out, {});
  queue(op, std::move(code).take(), stream);
}

}  // namespace

void add(const Tensor& out, const Tensor& a, const Tensor& b, const Stream& stream) {
  write_each("add", out, {out.count()}, stream, [&](const auto& read) {
    const expr::Term first = read(a);
    return first + read(b);
  });
}

void cast(const Tensor& out, const Tensor& a, const Stream& stream) {
  write_each("cast", out, {out.count()}, stream, [&](const auto& read) { return read(a); });
}

void fill(const Tensor& out, double value, const Stream& stream) {
  const Shape space{out.count()};
  expr::Builder code(space);
  code.write(code.constant(out.dtype(), value), out, expr::broadcast_layout(space, space));
  queue("fill", std::move(code).take(), stream);
}

void scale(const Tensor& out, const Tensor& a, double factor, const Stream& stream) {
  const DType dtype = out.dtype() == DType::f64 || a.dtype() == DType::f64 ? DType::f64 : DType::f32;
  write_each("scale", out, {out.count()}, stream, [&](const auto& read) { return read(a).cast(dtype) * factor; });
}

void increment(const Tensor& counter, std::int64_t amount, const Stream& stream) {
  write_each("increment", counter, {counter.count()}, stream, [&](const auto& read) { return read(counter) + amount; });
}

void mean(const Tensor& out, const Tensor& x, const Stream& stream) {
  reduce("mean", out, x, stream, [&](const expr::Term& each) { return each.sum() / static_cast<double>(x.count()); });
}

void sum_of_squares(const Tensor& out, const Tensor& x, const Stream& stream) {
  reduce("sum_of_squares", out, x, stream, [](const expr::Term& each) { return square(each.cast(DType::f64)).sum(); });
}

expr::Expression correct_rows(const Tensor& out, const Tensor& logits, const Tensor& labels) {
  using expr::Layout;
  using expr::Term;
  const Shape& space = logits.shape();
  expr::Builder code(space, 1);
  const Term logit = Term(code, code.read(logits, expr::broadcast_layout(space, space))).cast(DType::f32);
  const Term label(code, code.read(labels, Layout{.strides = {1}}));
  const Term best = logit.reduce(expr::Combiner::argmax, DType::i64);
  const Term is_correct = (best == label.cast(DType::i64)).cast(DType::f32);
  const Term largest = logit.reduce(expr::Combiner::max, DType::f32);
  where(is_nan(largest), 0, is_correct).write(out, Layout{.strides = {1}});
  return std::move(code).take();
}

}  // namespace giro::ops
