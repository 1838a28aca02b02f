#include "kernels/internal/ops.h"
#include "kernels/rules/patterns.h"
#include "kernels/rules/rules.h"

namespace giro::rules {

// For a weight that is used in several places: adds each further gradient to the first one in place, without a
// temporary. The GPU's library can add to its output; the CPU's cannot.
bool add_in_place(OpList& ops, std::size_t i) {
  const Stream stream = ops[i].stream;
  const auto* const backward = detail::op_of<ops::DenseBackward>(ops[i]);
  if (backward == nullptr) return false;
  const Tensor dw = backward->dw;
  if (backward->dx || !dw || dw.dtype() != DType::f32) return false;
  const auto reader = ops.only_reader(i, dw);
  const std::optional<Addition> add = reader ? addition_of(ops[*reader]) : std::nullopt;
  if (!add) return false;
  const auto [sum, a, b] = *add;
  if (same(a, dw) == same(b, dw) || sum.dtype() != DType::f32 || !ops.can_run_early(*reader, i)) return false;
  const Tensor first = same(a, dw) ? b : a;
  // The first gradient must already be in the sum, as after an earlier backward pass, or in a temporary that can be
  // placed there.
  bool is_there = same(first, sum) && ops.is_untouched(sum, i, i + 1);
  for (std::size_t k = 0; k < i && !is_there; ++k) {
    is_there = detail::any_overlap(ops[k].node.writes, first) && ops.only_reader(k, first) == reader &&
               ops.relocate(first, sum, k, *reader);
  }
  if (!is_there) return false;
  queue(ops::DenseBackwardAdd{sum.reshape(dw.shape()), backward->db, backward->dz, backward->x, backward->math},
        stream);
  ops.replace(i, {*reader});
  return true;
}

}  // namespace giro::rules
