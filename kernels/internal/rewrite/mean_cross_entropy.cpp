#include <giro/kernels/softmax_cross_entropy.h>

#include "kernels/internal/rewrite/patterns.h"
#include "kernels/internal/rewrite/rules.h"

namespace giro::rewrite {

// The losses of rows of which the mean alone is wanted, their gradients' common factor, and the accuracy of the same
// logits.
bool mean_cross_entropy(OpList& ops, std::size_t i) {
  const Stream stream = ops[i].stream;
  const auto* const entropy = GIRO_ARGUMENTS(ops[i], softmax_cross_entropy);
  if (entropy == nullptr) return false;
  const auto [losses, row_gradients, logits, labels] = *entropy;
  const auto reader = ops.only_reader(i, losses);
  const auto* const mean = reader ? GIRO_ARGUMENTS(ops[*reader], mean) : nullptr;
  if (mean == nullptr || !same(std::get<1>(*mean), losses) || logits.shape()[0] > kMostMeanRows ||
      logits.shape()[0] < 1 || !ops.can_run_early(*reader, i)) {
    return false;
  }
  std::vector<std::size_t> gone{*reader};

  Tensor dlogits = row_gradients;
  double factor = 1;
  if (const auto scaled = dlogits ? ops.only_reader(i, dlogits) : std::nullopt) {
    const std::optional<Scaling> scaling = scaling_of(ops[*scaled]);
    if (scaling && scaling->out.dtype() == DType::f32 && ops.can_run_early(*scaled, i, gone)) {
      dlogits = scaling->out.reshape(logits.shape());
      factor = scaling->factor;
      gone.push_back(*scaled);
    }
  }
  // Gradients in the logits' place are what an accuracy after them would see.
  const bool logits_stay = !detail::overlap(row_gradients, logits) && !detail::overlap(dlogits, logits);
  Tensor share;
  for (std::size_t k = i + 1; logits_stay && k < ops.size() && !share; ++k) {
    const auto* const accuracy = GIRO_ARGUMENTS(ops[k], accuracy);
    if (accuracy == nullptr) continue;
    const auto& [out, of_logits, of_labels] = *accuracy;
    if (of_logits.raw() != logits.raw() || of_logits.shape() != logits.shape() || of_labels.raw() != labels.raw() ||
        of_labels.dtype() != labels.dtype() || !ops.can_run_early(k, i, gone)) {
      continue;
    }
    share = out;
    gone.push_back(k);
  }
  giro::mean_cross_entropy(std::get<0>(*mean), dlogits, share, logits, labels, factor, stream);
  ops.replace(i, gone);
  return true;
}

}  // namespace giro::rewrite
