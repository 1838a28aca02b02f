#include "kernels/correct_rows.h"

#include <utility>

#include "kernels/expr/term.h"

namespace giro {

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

}  // namespace giro
