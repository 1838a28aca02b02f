#include "kernels/internal/ops.h"
#include "kernels/rules/patterns.h"
#include "kernels/rules/rules.h"

namespace giro::rules {

// A weight that is used in several places: each further gradient is added where the first lies, without a temporary.
// The library adds to what is there; the CPU's cannot.
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
  // Where the first lies: in the sum, as of a backward pass before, or in a temporary that may lie there.
  bool is_there = same(first, sum) && ops.is_untouched(sum, i, i + 1);
  for (std::size_t k = 0; k < i && !is_there; ++k) {
    is_there = detail::any_overlap(ops[k].node.writes, first) && ops.only_reader(k, first) == reader &&
               ops.place(first, sum, k, *reader);
  }
  if (!is_there) return false;
  queue(ops::DenseBackwardAdd{sum.reshape(dw.shape()), backward->db, backward->dz, backward->x, backward->math},
        stream);
  ops.replace(i, {*reader});
  return true;
}

}  // namespace giro::rules
