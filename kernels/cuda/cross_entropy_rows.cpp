#include "kernels/cuda/cross_entropy_rows.h"

#include <limits>
#include <utility>

#include "kernels/pointwise/term.h"

namespace giro::cuda {

using pointwise::Combiner;
using pointwise::Layout;
using pointwise::Term;

pointwise::Expression cross_entropy_rows(const Tensor& losses, const Tensor& dlogits, const Tensor& logits,
                                         const Tensor& labels, double factor) {
  const Shape& space = logits.shape();
  const Layout whole = pointwise::broadcast_layout(space, space), of_rows{.strides = {1}};
  pointwise::Builder code(space, 1);
  const Term logit = Term(code, code.read(logits, whole)).cast(DType::f32);
  const Term label = Term(code, code.read(labels, of_rows)).cast(DType::i64);
  const Term is_label = Term(code, code.place(Layout{.strides = {0, 1}})) == label;
  const Term nan = logit.constant(DType::f32, std::numeric_limits<double>::quiet_NaN());
  const auto if_known = [&](const Term& value) { return where(label < 0, nan, where(label < space[1], value, nan)); };

  const Term largest = logit.reduce(Combiner::max, DType::f32);
  const Term exponential = exp(logit - largest), total = exponential.sum();
  const Term at_label = where(is_label, logit, 0).sum();
  if_known(log(total) + (largest - at_label)).write(losses, of_rows);
  if (dlogits) {
    const Term slope = exponential / total - is_label.cast(DType::f32);
    if_known(slope * factor).cast(dlogits.dtype()).write(dlogits, whole);
  }
  return std::move(code).take();
}

}  // namespace giro::cuda
