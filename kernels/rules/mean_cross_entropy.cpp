#include <algorithm>

#include "kernels/elementwise.h"
#include "kernels/ops.h"
#include "kernels/rules/op_list.h"
#include "kernels/rules/patterns.h"
#include "kernels/rules/rules.h"

namespace giro::rules {
namespace {

// Whether the op is `correct` for these logits and labels.
bool counts_correct_rows(const detail::HeldOp& op, const Tensor& logits, const Tensor& labels) {
  const expr::Expression* const expression = expression_of(op);
  const auto reads_logits = [&](const expr::Access& read) { return same(read.memory, logits); };
  return expression != nullptr && expression->writes.size() == 1 &&
         std::ranges::any_of(expression->reads, reads_logits) &&
         *expression == ops::correct_rows(expression->writes.front().to.memory, logits, labels);
}

}  // namespace

// Fuses the rows' losses with their mean, if nothing else reads them, with the common factor of their gradients, and
// with the accuracy of the same logits.
bool mean_cross_entropy(OpList& ops, std::size_t i) {
  const auto* const entropy = detail::op_of<ops::SoftmaxCrossEntropy>(ops[i]);
  if (entropy == nullptr) return false;
  const Tensor &losses = entropy->losses, &row_gradients = entropy->dlogits;
  const Tensor &logits = entropy->logits, &labels = entropy->labels;
  const auto mean = only_reader_as(mean_of, ops, i, losses);
  if (!mean || logits.shape()[0] > ops::MeanCrossEntropy::kMaxRows || logits.shape()[0] < 1 ||
      !ops.can_run_early(mean->at, i)) {
    return false;
  }
  std::vector<std::size_t> gone{mean->at};

  Tensor dlogits = row_gradients;
  double factor = 1;
  const auto fits = [&](DType dtype) { return dtype == DType::f32 || dtype == logits.dtype(); };
  const auto scaling = dlogits ? only_reader_as(scaling_of, ops, i, dlogits) : std::nullopt;
  if (scaling && dlogits.dtype() == DType::f32 && fits(scaling->out.dtype()) &&
      ops.can_run_early(scaling->at, i, gone)) {
    dlogits = scaling->out.reshape(logits.shape());
    factor = scaling->factor;
    gone.push_back(scaling->at);
  }
  // If the gradients overwrite the logits, a later accuracy reads the gradients.
  const bool logits_stay = !ops.replaces(row_gradients, logits) && !ops.replaces(dlogits, logits);
  Tensor share;
  for (std::size_t k = i + 1; logits_stay && k < ops.size() && !share; ++k) {
    if (!counts_correct_rows(ops[k], logits, labels) || !ops.can_run_early(k, i, gone)) continue;
    const Tensor& hits = expression_of(ops[k])->writes.front().to.memory;
    const auto mean_of_hits = only_reader_as(mean_of, ops, k, hits);
    gone.push_back(k);
    if (mean_of_hits && ops.can_run_early(mean_of_hits->at, i, gone)) {
      share = mean_of_hits->out.reshape({});
      gone.push_back(mean_of_hits->at);
    } else {
      gone.pop_back();
    }
  }
  ops.replace(i, ops::MeanCrossEntropy{mean->out.reshape({}), dlogits, share, logits, labels, factor, entropy->fault},
              gone);
  return true;
}

}  // namespace giro::rules
