#include "kernels/moments.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "kernels/expr/term.h"
#include "runtime/throw_error.h"

namespace giro::ops {

using expr::Builder;
using expr::Layout;
using expr::Term;

void moments(const Tensor& mean, const Tensor& deviation, const Tensor& count, const Tensor& values, const Tensor& mask,
             const Stream& stream) {
  if (mask) {
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
  Builder code({});
  const auto sum = [&](std::int64_t i) { return factor * Term(code, code.read(sums, Layout{.offset = i})); };
  const Term n = sum(2), of_mean = sum(0) / n;
  of_mean.write(mean, {});
  if (deviation) sqrt(maximum(sum(1) / n - square(of_mean), 0)).write(deviation, {});
  n.write(count, {});
  queue("moments_of_sums", std::move(code).take(), stream);
}

}  // namespace giro::ops
