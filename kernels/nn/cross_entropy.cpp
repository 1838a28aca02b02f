#include <algorithm>
#include <vector>

#include <giro/kernels/nn/functional.h>
#include <giro/kernels/nn/losses.h>

#include "kernels/elementwise.h"
#include "kernels/nn/gradients.h"
#include "kernels/ops.h"
#include "runtime/call_site.h"
#include "runtime/faults.h"
#include "runtime/throw_error.h"

namespace giro::nn {
namespace {

// logits (R, C), labels (R,). The forward pass computes the gradient of each row's loss; the backward pass only scales
// the rows.
Var losses_of_rows(const Var& logits, const Var& labels, const Fault& fault) {
  Var dlogits;
  if (logits.requires_grad()) dlogits = Var::computed(DType::f32, logits.shape(), {stop_gradient(logits)}, nullptr);
  const auto gradient = [dlogits](const Var&, const Var& dy, const std::vector<Var>& in) {
    const Var terms = gradient_like("softmax_cross_entropy", in[0], in[0].grad_dtype(), {dy, in[0]});
    ops::write_each("scale_rows", terms.value(), dlogits.shape(), terms.stream(), [&](const auto& read) {
      const expr::Term each = read(dlogits.value());
      return each * read(dy.value(), Shape{dy.shape()[0], 1});
    });
    return Gradients{terms, Var()};
  };
  Var losses = Var::computed(DType::f32, {logits.shape()[0]}, {logits, labels}, gradient);
  losses.set_direction(Direction::lower);
  queue(ops::SoftmaxCrossEntropy{losses.value(), dlogits.value(), logits.value(), labels.value(), fault},
        losses.stream());
  return losses;
}

}  // namespace

Var softmax_cross_entropy(const Var& logits, const Var& labels, Where where) {
  const detail::CallSite site(where);
  if (is_floating(labels.dtype())) return softmax_cross_entropy(logits, labels, CrossEntropyOptions{});
  const Shape &of_logits = logits.shape(), &of_labels = labels.shape();
  if (of_logits.rank() != of_labels.rank() + 1 || !std::equal(of_labels.begin(), of_labels.end(), of_logits.begin())) {
    throw_error(ErrorCode::shape_mismatch,
                "softmax_cross_entropy: logits is {}, labels is {}; expected (..., C) and (...)",
                to_string(logits.value()), to_string(labels.value()));
  }
  const Stream& stream = (logits.has_stream() ? logits : labels).stream();
  giro::detail::expect_fit("softmax_cross_entropy", "logits: s, labels: i", {&logits.value(), &labels.value()});
  const std::int64_t rows = of_labels.count(), classes = of_logits.begin()[of_labels.rank()];
  const Fault fault = giro::detail::Faults::of(stream, "softmax_cross_entropy: label", labels.value(), classes);
  if (of_logits.rank() == 2) return losses_of_rows(logits, labels, fault);
  return losses_of_rows(logits.reshape({rows, classes}), labels.reshape({rows}), fault).reshape(of_labels);
}

}  // namespace giro::nn
