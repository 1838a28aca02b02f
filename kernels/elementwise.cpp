#include "kernels/elementwise.h"

#include <algorithm>

#include "runtime/throw_error.h"

namespace giro::ops {
namespace {

using expr::Builder;
using expr::Layout;
using expr::Term;

// Reduces all elements to one; f builds the result from an element.
template <class F>
void reduce(const char* op, const Tensor& out, const Tensor& x, const Stream& stream, const F& f) {
  const Shape space{x.count()};
  Builder code(space, 1);
  f(code.read(x, expr::broadcast_layout(space, space))).write(out, {});
  queue(op, std::move(code).take(), stream);
}

}  // namespace

void add(const Tensor& out, const Tensor& a, const Tensor& b, const Stream& stream) {
  write_each("add", out, {out.count()}, stream, [&](const auto& read) {
    const Term first = read(a);
    return first + read(b);
  });
}

void add_bias(const Tensor& y, const Tensor& b, const Stream& stream, bool relu) {
  if ((!b && !relu) || y.count() == 0) return;
  const std::int64_t columns = y.shape()[-1];
  write_each("add_bias", y, {y.count() / columns, columns}, stream, [&](const auto& read) {
    Term value = read(y);
    if (b) {
      const Term bias = read(b, Shape{columns});
      value = (value.cast(DType::f32) + bias.cast(DType::f32)).cast(y.dtype());
    }
    return relu ? expr::relu(value) : value;
  });
}

void cast(const Tensor& out, const Tensor& a, const Stream& stream) {
  write_each("cast", out, {out.count()}, stream, [&](const auto& read) { return read(a); });
}

void fill(const Tensor& out, double value, const Stream& stream) {
  const Shape space{out.count()};
  Builder code(space);
  code.constant(out.dtype(), value).write(out, expr::broadcast_layout(space, space));
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
  reduce("mean", out, x, stream, [&](const Term& each) { return each.sum() / static_cast<double>(x.count()); });
}

void sum_of_squares(const Tensor& out, const Tensor& x, const Stream& stream) {
  reduce("sum_of_squares", out, x, stream, [](const Term& each) { return square(each.cast(DType::f64)).sum(); });
}

expr::Expression correct_rows(const Tensor& out, const Tensor& logits, const Tensor& labels) {
  const Shape& space = logits.shape();
  Builder code(space, 1);
  const Term logit = code.read(logits, expr::broadcast_layout(space, space)).cast(DType::f32);
  const Term label = code.read(labels, Layout{.strides = {1}});
  const Term best = logit.reduce(expr::Combiner::argmax, DType::i64);
  const Term is_correct = (best == label.cast(DType::i64)).cast(DType::f32);
  const Term largest = logit.reduce(expr::Combiner::max, DType::f32);
  where(is_nan(largest), 0, is_correct).write(out, Layout{.strides = {1}});
  return std::move(code).take();
}

void digest(const Tensor& digest, const Tensor& bytes, const Stream& stream) {
  detail::expect_fit("digest", "bytes: u8([n]) -> digest: i64()", {&bytes}, {&digest});
  if (bytes.count() % 8 != 0 || reinterpret_cast<std::uintptr_t>(bytes.place()) % 8 != 0) {
    throw_invalid("digest: bytes is {} at {}, expected whole, aligned 8-byte words", to_string(bytes), bytes.place());
  }
  const Shape space{bytes.count() / 8};
  const Layout each = expr::broadcast_layout(space, space);
  Builder code(space, 1);
  const Term word = code.read(Tensor(bytes.place(), DType::i64, space, bytes.device()), each);
  Term::apply(expr::functions::digest_term, {word, code.place(each)}).sum().write(digest, {});
  queue("digest", std::move(code).take(), stream);
}

void moments(const Tensor& mean, const Tensor& deviation, const Tensor& count, const Tensor& values, const Tensor& mask,
             const Stream& stream) {
  if (mask) {
    const Shape &all = values.shape(), &first = mask.shape();
    if (first.rank() > all.rank() || !std::equal(first.begin(), first.end(), all.begin())) {
      throw_shape("moments: mask is {}, values is {}; expected the first axes of values", to_string(mask),
                  to_string(values));
    }
  }
  const std::int64_t outer = mask ? mask.count() : 1, inner = outer > 0 ? values.count() / outer : 0;
  const Shape space{outer, inner};
  Builder code(space, 2);
  const Term x = code.read(values, expr::broadcast_layout(space, space)).cast(DType::f64);
  Term n = code.constant(DType::f64, static_cast<double>(values.count()));
  std::optional<Term> counts;
  if (mask) {
    counts = code.read(mask, Layout{.strides = {1}});
    n = counts->cast(DType::f64).sum();
  }
  const auto mean_of = [&](const Term& each) { return (counts ? where(*counts, each, 0) : each).sum() / n; };
  const Term of_mean = mean_of(x);
  of_mean.write(mean, {});
  if (deviation) sqrt(mean_of(square(x - of_mean))).write(deviation, {});
  n.write(count, {});
  queue("moments", std::move(code).take(), stream);
}

void moment_sums(const Tensor& sums, const Tensor& mean, const Tensor& deviation, const Tensor& count,
                 const Stream& stream) {
  Builder code({});
  const Term n = code.read(count, {}), m = code.read(mean, {});
  Term squared = square(m);
  if (deviation) squared = squared + square(code.read(deviation, {}));
  where(0 < n, n * m, 0).write(sums, {});
  where(0 < n, n * squared, 0).write(sums, Layout{.offset = 1});
  n.write(sums, Layout{.offset = 2});
  queue("moment_sums", std::move(code).take(), stream);
}

void moments_of_sums(const Tensor& mean, const Tensor& deviation, const Tensor& count, const Tensor& sums,
                     double factor, const Stream& stream) {
  Builder code({});
  const auto sum = [&](std::int64_t i) { return factor * code.read(sums, Layout{.offset = i}); };
  const Term n = sum(2), of_mean = sum(0) / n;
  of_mean.write(mean, {});
  if (deviation) sqrt(maximum(sum(1) / n - square(of_mean), 0)).write(deviation, {});
  n.write(count, {});
  queue("moments_of_sums", std::move(code).take(), stream);
}

}  // namespace giro::ops
