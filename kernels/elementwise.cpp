#include <giro/kernels/elementwise.h>

#include <cstdint>
#include <string_view>

#include "kernels/internal/checks.h"
#include "kernels/pointwise/elements.h"
#include "kernels/pointwise/table.h"

namespace giro {
namespace {

using pointwise::Elements;
using pointwise::ScalarFunction;
namespace functions = pointwise::functions;

void binary(const ScalarFunction& function, const Tensor& out, const Tensor& a, const Tensor& b, const Stream& stream) {
  const std::string_view op = function.name;
  checks::on_device(op, {{"out", out}, {"a", a}, {"b", b}}, stream);
  checks::is_floating(op, {"out", out});
  checks::same_dtype(op, {"out", out}, {"a", a});
  checks::same_dtype(op, {"out", out}, {"b", b});
  checks::same_shape(op, {"out", out}, {"a", a});
  checks::same_shape(op, {"out", out}, {"b", b});
  Elements each(function.name, out);
  const std::uint16_t first = each.read(a), second = each.read(b);
  each.write(each.apply(function, first, second), stream);
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
  Elements each("scale", out);
  const std::uint16_t value = each.cast(each.read(a), dtype);
  each.write(each.apply(functions::multiply, value, each.constant(dtype, factor)), stream);
}

void cast(const Tensor& out, const Tensor& a, const Stream& stream) {
  checks::on_device("cast", {{"out", out}, {"a", a}}, stream);
  checks::same_shape("cast", {"out", out}, {"a", a});
  Elements each("cast", out);
  each.write(each.read(a), stream);
}

void fill(const Tensor& out, double value, const Stream& stream) {
  checks::on_device("fill", {{"out", out}}, stream);
  Elements each("fill", out);
  each.write(each.constant(out.dtype(), value), stream);
}

void scale_rows(const Tensor& out, const Tensor& a, const Tensor& factors, const Stream& stream) {
  checks::on_device("scale_rows", {{"out", out}, {"a", a}, {"factors", factors}}, stream);
  checks::is_storage("scale_rows", {"out", out});
  checks::has_dtype("scale_rows", {"a", a}, DType::f32);
  checks::has_dtype("scale_rows", {"factors", factors}, DType::f32);
  checks::same_shape("scale_rows", {"out", out}, {"a", a});
  const std::int64_t rows = a.shape()[0];
  checks::has_shape("scale_rows", {"factors", factors}, {rows});
  Elements each("scale_rows", out, {rows, rows > 0 ? a.count() / rows : 0});
  const std::uint16_t value = each.read(a), factor = each.read(factors, {rows, 1});
  each.write(each.apply(functions::multiply, value, factor), stream);
}

void broadcast(const Tensor& out, const Tensor& scalar, double factor, const Stream& stream) {
  checks::on_device("broadcast", {{"out", out}, {"scalar", scalar}}, stream);
  checks::has_dtype("broadcast", {"out", out}, DType::f32);
  checks::has_dtype("broadcast", {"scalar", scalar}, DType::f32);
  checks::has_shape("broadcast", {"scalar", scalar}, {});
  Elements each("broadcast", out);
  const std::uint16_t value = each.read(scalar, {});
  each.write(each.apply(functions::multiply, value, each.constant(DType::f32, factor)), stream);
}

void increment(const Tensor& counter, std::int64_t amount, const Stream& stream) {
  checks::on_device("increment", {{"counter", counter}}, stream);
  checks::has_dtype("increment", {"counter", counter}, DType::i64);
  checks::has_shape("increment", {"counter", counter}, {});
  Elements each("increment", counter);
  const std::uint16_t value = each.read(counter);
  each.write(each.apply(functions::add, value, each.constant(amount)), stream);
}

}  // namespace giro
