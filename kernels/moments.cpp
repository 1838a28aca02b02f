#include <giro/kernels/moments.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "kernels/checks.h"
#include "kernels/expr/term.h"
#include "runtime/throw_error.h"

namespace giro {
namespace {

using expr::Builder;
using expr::Layout;
using expr::Term;

void check_sums(std::string_view op, const Tensor& mean, const Tensor& deviation, const Tensor& count,
                const Tensor& sums, const Stream& stream) {
  checks::on_device(op, {{"mean", mean}, {"deviation", deviation}, {"count", count}, {"sums", sums}}, stream);
  checks::has_dtype_and_shape(op, {"mean", mean}, DType::f64, {});
  checks::has_dtype_and_shape(op, {"count", count}, DType::f64, {});
  if (deviation) checks::has_dtype_and_shape(op, {"deviation", deviation}, DType::f64, {});
  checks::has_dtype_and_shape(op, {"sums", sums}, DType::f64, {3});
}

}  // namespace

void moments(const Tensor& mean, const Tensor& deviation, const Tensor& count, const Tensor& values, const Tensor& mask,
             const Stream& stream) {
  checks::on_device("moments",
                    {{"mean", mean}, {"deviation", deviation}, {"count", count}, {"values", values}, {"mask", mask}},
                    stream);
  checks::has_dtype_and_shape("moments", {"mean", mean}, DType::f64, {});
  if (deviation) checks::has_dtype_and_shape("moments", {"deviation", deviation}, DType::f64, {});
  checks::has_dtype_and_shape("moments", {"count", count}, DType::f64, {});
  checks::has_dtype("moments", {"values", values}, DType::f32);
  if (mask) {
    checks::has_dtype("moments", {"mask", mask}, DType::boolean);
    const Shape &all = values.shape(), &first = mask.shape();
    if (first.rank() > all.rank() || !std::equal(first.begin(), first.end(), all.begin())) {
      throw_error(ErrorCode::shape_mismatch, "moments: mask is {}, values is {}; expected the first axes of values",
                  to_string(mask), to_string(values));
    }
  }
  const std::int64_t outer = mask ? mask.count() : 1, inner = outer > 0 ? values.count() / outer : 0;
  const Shape space{outer, inner};
  Builder code(space, 2);
  const Term x = Term(code, code.read(values, expr::broadcast_layout(space, space))).cast(DType::f64);
  Term n = x.constant(DType::f64, static_cast<double>(values.count()));
  std::optional<Term> counts;
  if (mask) {
    counts = Term(code, code.read(mask, Layout{.strides = {1}}));
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
  check_sums("moment_sums", mean, deviation, count, sums, stream);
  Builder code({});
  const Term n(code, code.read(count, {})), m(code, code.read(mean, {}));
  Term squared = square(m);
  if (deviation) squared = squared + square(Term(code, code.read(deviation, {})));
  where(0 < n, n * m, 0).write(sums, {});
  where(0 < n, n * squared, 0).write(sums, Layout{.offset = 1});
  n.write(sums, Layout{.offset = 2});
  queue("moment_sums", std::move(code).take(), stream);
}

void moments_of_sums(const Tensor& mean, const Tensor& deviation, const Tensor& count, const Tensor& sums,
                     double factor, const Stream& stream) {
  check_sums("moments_of_sums", mean, deviation, count, sums, stream);
  Builder code({});
  const auto sum = [&](std::int64_t i) { return factor * Term(code, code.read(sums, Layout{.offset = i})); };
  const Term n = sum(2), of_mean = sum(0) / n;
  of_mean.write(mean, {});
  if (deviation) sqrt(maximum(sum(1) / n - square(of_mean), 0)).write(deviation, {});
  n.write(count, {});
  queue("moments_of_sums", std::move(code).take(), stream);
}

}  // namespace giro
