#include <giro/kernels/nn/metrics.h>

#include <giro/kernels/accuracy.h>
#include <giro/kernels/elementwise.h>
#include <giro/kernels/moments.h>
#include <giro/kernels/nn/functional.h>

#include "runtime/internal/call_site.h"

namespace giro::nn {
namespace {

struct Moments {
  Var mean, deviation, count;
};

Moments moments_of(const Var& x, const Var& m) {
  const Var values = stop_gradient(x), mask = stop_gradient(m);
  const auto number = [&] { return Var::computed(DType::f64, {}, {values, mask}, nullptr); };
  const auto converted = [&](const Var& from, DType dtype) {
    if (from.dtype() == dtype || !from.value()) return from;
    Var to = Var::computed(dtype, from.shape(), {values, mask}, nullptr);
    cast(to.value(), from.value(), to.stream());
    return to;
  };
  const Var numbers = converted(values, DType::f32), flags = converted(mask, DType::boolean);
  Moments result{number(), number(), number()};
  moments(result.mean.value(), result.deviation.value(), result.count.value(), numbers.value(), flags.value(),
          result.mean.stream());
  return result;
}

}  // namespace

Metric average(const Var& values, const Var& mask, Where where) {
  const detail::CallSite site(where);
  const Moments of = moments_of(values, mask);
  return {of.mean, of.count};
}

Metric standard_deviation(const Var& values, const Var& mask, Where where) {
  const detail::CallSite site(where);
  const Moments of = moments_of(values, mask);
  return {of.deviation, of.count, of.mean};
}

Metric accuracy(const Var& logits, const Var& labels, const Var& mask, Where where) {
  const detail::CallSite site(where);
  return average(correct(logits, labels), mask);
}

Var correct(const Var& given, const Var& labels, Where where) {
  const detail::CallSite site(where);
  const Var logits = stop_gradient(given);
  Var out = Var::computed(DType::f32, labels.shape(), {logits, labels}, nullptr);
  giro::correct(out.value(), logits.value(), labels.value(), out.stream());
  return out;
}

}  // namespace giro::nn
