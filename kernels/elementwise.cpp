#include <giro/kernels/elementwise.h>

#include "kernels/internal/backends.h"
#include "kernels/internal/checks.h"
#include "kernels/internal/dispatch.h"

namespace giro {
namespace {

void check_binary(std::string_view op, const Tensor& out, const Tensor& a, const Tensor& b, const Stream& stream) {
  checks::on_device(op, {{"out", out}, {"a", a}, {"b", b}}, stream);
  checks::is_floating(op, {"out", out});
  checks::same_dtype(op, {"out", out}, {"a", a});
  checks::same_dtype(op, {"out", out}, {"b", b});
  checks::same_shape(op, {"out", out}, {"a", a});
  checks::same_shape(op, {"out", out}, {"b", b});
}

}  // namespace

void add(const Tensor& out, const Tensor& a, const Tensor& b, const Stream& stream) {
  check_binary("add", out, a, b, stream);
  GIRO_QUEUE(stream, add, (out, a, b), {out}, {a, b}, elements(out));
}

void multiply(const Tensor& out, const Tensor& a, const Tensor& b, const Stream& stream) {
  check_binary("multiply", out, a, b, stream);
  GIRO_QUEUE(stream, multiply, (out, a, b), {out}, {a, b}, elements(out));
}

void scale(const Tensor& out, const Tensor& a, double factor, const Stream& stream) {
  checks::on_device("scale", {{"out", out}, {"a", a}}, stream);
  checks::is_floating("scale", {"out", out});
  checks::same_shape("scale", {"out", out}, {"a", a});
  GIRO_QUEUE(stream, scale, (out, a, factor), {out}, {a}, elements(out));
}

void cast(const Tensor& out, const Tensor& a, const Stream& stream) {
  checks::on_device("cast", {{"out", out}, {"a", a}}, stream);
  checks::same_shape("cast", {"out", out}, {"a", a});
  GIRO_QUEUE(stream, cast, (out, a), {out}, {a});
}

void fill(const Tensor& out, double value, const Stream& stream) {
  checks::on_device("fill", {{"out", out}}, stream);
  GIRO_QUEUE(stream, fill, (out, value), {out}, {});
}

void scale_rows(const Tensor& out, const Tensor& a, const Tensor& factors, const Stream& stream) {
  checks::on_device("scale_rows", {{"out", out}, {"a", a}, {"factors", factors}}, stream);
  for (const checks::Argument& argument : {checks::Argument{"out", out}, {"a", a}, {"factors", factors}}) {
    checks::has_dtype("scale_rows", argument, DType::f32);
  }
  checks::same_shape("scale_rows", {"out", out}, {"a", a});
  checks::has_shape("scale_rows", {"factors", factors}, {a.shape()[0]});
  GIRO_QUEUE(stream, scale_rows, (out, a, factors), {out}, {a, factors}, elements(out));
}

void broadcast(const Tensor& out, const Tensor& scalar, double factor, const Stream& stream) {
  checks::on_device("broadcast", {{"out", out}, {"scalar", scalar}}, stream);
  checks::has_dtype("broadcast", {"out", out}, DType::f32);
  checks::has_dtype("broadcast", {"scalar", scalar}, DType::f32);
  checks::has_shape("broadcast", {"scalar", scalar}, {});
  GIRO_QUEUE(stream, broadcast, (out, scalar, factor), {out}, {scalar}, elements(out));
}

void increment(const Tensor& counter, std::int64_t amount, const Stream& stream) {
  checks::on_device("increment", {{"counter", counter}}, stream);
  checks::has_dtype("increment", {"counter", counter}, DType::i64);
  checks::has_shape("increment", {"counter", counter}, {});
  GIRO_QUEUE(stream, increment, (counter, amount), {counter}, {counter});
}

}  // namespace giro
