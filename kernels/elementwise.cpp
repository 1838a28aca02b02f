#include <giro/kernels/elementwise.h>

#include <optional>
#include <string_view>
#include <utility>

#include "kernels/checks.h"
#include "kernels/expr/term.h"

namespace giro {
namespace {

using expr::ScalarFunction;
using expr::Term;
namespace functions = expr::functions;

// Writes one whole array: value(read), converted to its dtype, for each element of the space. read(array) has the
// array's elements, and read(array, shape) those of an array that is broadcast from the shape to the space.
template <class Value>
void write_each(const char* op, const Tensor& out, const Shape& space, const Stream& stream, const Value& value) {
  expr::Builder code(space);
  const auto read = [&](const Tensor& array, std::optional<Shape> shape = {}) {
    return Term(code, code.read(array, expr::broadcast_layout(shape.value_or(space), space)));
  };
  value(read).cast(out.dtype()).write(out, expr::broadcast_layout(space, space));
  queue(op, std::move(code).take(), stream);
}

void binary(const ScalarFunction& function, const Tensor& out, const Tensor& a, const Tensor& b, const Stream& stream) {
  const std::string_view op = function.name;
  checks::on_device(op, {{"out", out}, {"a", a}, {"b", b}}, stream);
  checks::is_floating(op, {"out", out});
  for (const checks::Argument& argument : {checks::Argument{"a", a}, {"b", b}}) {
    checks::same_dtype(op, {"out", out}, argument);
    checks::same_shape(op, {"out", out}, argument);
  }
  write_each(function.name, out, {out.count()}, stream, [&](const auto& read) {
    const Term first = read(a), second = read(b);
    return Term::apply(function, {first, second});
  });
}

}  // namespace

void add(const Tensor& out, const Tensor& a, const Tensor& b, const Stream& stream) {
  binary(functions::add, out, a, b, stream);
}

void multiply(const Tensor& out, const Tensor& a, const Tensor& b, const Stream& stream) {
  binary(functions::multiply, out, a, b, stream);
}

void scale(const Tensor& out, const Tensor& a, double factor, const Stream& stream) {
  checks::on_device("scale", {{"out", out}, {"a", a}}, stream);
  checks::is_floating("scale", {"out", out});
  checks::same_shape("scale", {"out", out}, {"a", a});
  const DType dtype = out.dtype() == DType::f64 || a.dtype() == DType::f64 ? DType::f64 : DType::f32;
  write_each("scale", out, {out.count()}, stream, [&](const auto& read) { return read(a).cast(dtype) * factor; });
}

void cast(const Tensor& out, const Tensor& a, const Stream& stream) {
  checks::on_device("cast", {{"out", out}, {"a", a}}, stream);
  checks::same_shape("cast", {"out", out}, {"a", a});
  write_each("cast", out, {out.count()}, stream, [&](const auto& read) { return read(a); });
}

void fill(const Tensor& out, double value, const Stream& stream) {
  checks::on_device("fill", {{"out", out}}, stream);
  const Shape space{out.count()};
  expr::Builder code(space);
  code.write(code.constant(out.dtype(), value), out, expr::broadcast_layout(space, space));
  queue("fill", std::move(code).take(), stream);
}

void scale_rows(const Tensor& out, const Tensor& a, const Tensor& factors, const Stream& stream) {
  checks::on_device("scale_rows", {{"out", out}, {"a", a}, {"factors", factors}}, stream);
  checks::is_storage("scale_rows", {"out", out});
  checks::has_dtype("scale_rows", {"a", a}, DType::f32);
  checks::same_shape("scale_rows", {"out", out}, {"a", a});
  const std::int64_t rows = a.shape()[0];
  checks::has_dtype_and_shape("scale_rows", {"factors", factors}, DType::f32, {rows});
  const Shape space{rows, rows > 0 ? a.count() / rows : 0};
  write_each("scale_rows", out, space, stream, [&](const auto& read) {
    const Term value = read(a), factor = read(factors, Shape{rows, 1});
    return value * factor;
  });
}

void broadcast(const Tensor& out, const Tensor& scalar, double factor, const Stream& stream) {
  checks::on_device("broadcast", {{"out", out}, {"scalar", scalar}}, stream);
  checks::has_dtype("broadcast", {"out", out}, DType::f32);
  checks::has_dtype_and_shape("broadcast", {"scalar", scalar}, DType::f32, {});
  write_each("broadcast", out, {out.count()}, stream, [&](const auto& read) { return read(scalar, Shape{}) * factor; });
}

void increment(const Tensor& counter, std::int64_t amount, const Stream& stream) {
  checks::on_device("increment", {{"counter", counter}}, stream);
  checks::has_dtype_and_shape("increment", {"counter", counter}, DType::i64, {});
  write_each("increment", counter, {counter.count()}, stream, [&](const auto& read) { return read(counter) + amount; });
}

}  // namespace giro
