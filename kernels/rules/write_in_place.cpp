#include "kernels/rules/rules.h"
#include "runtime/program/copy.h"

namespace giro::rules {

// A value that is only copied elsewhere, such as a gradient to its leaf, is written to the destination directly.
bool write_in_place(OpList& ops, std::size_t i) {
  for (const Tensor& value : ops[i].node.writes) {
    const auto readers = ops[i].keeps_its_place() ? std::nullopt : ops.readers(i, value);
    if (!readers) continue;
    for (const std::size_t k : *readers) {
      const auto* const copy = detail::op_of<ops::Copy>(ops[k]);
      if (copy == nullptr || copy->from.raw() != value.raw() || copy->from.bytes() != value.bytes()) continue;
      if (!ops.place(value, copy->to, i, k)) continue;
      ops.drop(k);
      return true;
    }
  }
  return false;
}

}  // namespace giro::rules
