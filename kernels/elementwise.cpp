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

}  // namespace giro::ops
