#include "kernels/internal/narrow_layers.h"
#include "kernels/pointwise/expression_op.h"
#include "kernels/rules/rules.h"

namespace giro::rules {

// Layers with few outputs, and their gradients with respect to x, become expressions, with which others can fuse: a
// relu before them, or its gradient.
bool narrow_dense(OpList& ops, std::size_t i) {
  const Stream stream = ops[i].stream;
  const auto* const forward = detail::op_of<ops::Dense>(ops[i]);
  const auto* const backward = detail::op_of<ops::DenseBackward>(ops[i]);
  if (forward != nullptr && is_expression(*forward)) {
    queue(ops::Dense::kName, as_expression(*forward), stream);
  } else if (backward != nullptr && is_expression(*backward) && !backward->dw && !backward->db) {
    queue(ops::DenseBackward::kName, as_expression(*backward), stream);
  } else {
    return false;
  }
  ops.replace(i);
  return true;
}

}  // namespace giro::rules
