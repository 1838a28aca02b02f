#include <giro/kernels/gather.h>

#include <algorithm>

#include "kernels/internal/rewrite/rules.h"

namespace giro::rewrite {

// The arrays of a batch are gathered in one pass that finds the rows itself; bytes become the f32 that they are wanted
// as on the way.
bool gather_together(OpList& ops, std::size_t i) {
  const Stream stream = ops[i].stream;
  const auto* const indices = GIRO_ARGUMENTS(ops[i], batch_indices);
  if (indices == nullptr) return false;
  const auto [rows, positions, order] = *indices;
  const auto readers = ops.readers(i, rows);
  if (!readers || readers->empty() || readers->size() > kMostGathered) return false;
  std::vector<GatheredArray> arrays;
  std::vector<std::size_t> gone = *readers;
  for (const std::size_t k : *readers) {
    const auto* const gather = GIRO_ARGUMENTS(ops[k], gather_rows);
    if (gather == nullptr || !ops.can_run_early(k, i)) return false;
    const auto [out, src, by] = *gather;
    if (!same(by, rows)) return false;
    GatheredArray array{out, src};
    if (const auto next = out.dtype() == DType::u8 ? ops.only_reader(k, out) : std::nullopt) {
      const auto* const scale = GIRO_ARGUMENTS(ops[*next], scale);
      const auto* const cast = GIRO_ARGUMENTS(ops[*next], cast);
      const Tensor to = scale != nullptr ? std::get<0>(*scale) : cast != nullptr ? std::get<0>(*cast) : Tensor();
      const Tensor from = scale != nullptr ? std::get<1>(*scale) : cast != nullptr ? std::get<1>(*cast) : Tensor();
      if (to && to.dtype() == DType::f32 && same(from, out) && ops.can_run_early(*next, i, gone)) {
        array = {to.reshape(out.shape()), src, scale != nullptr ? static_cast<float>(std::get<2>(*scale)) : 1.0f};
        gone.push_back(*next);
      }
    }
    arrays.push_back(array);
  }
  gather_batch(arrays, positions, order, stream);
  ops.replace(i, gone);
  return true;
}

}  // namespace giro::rewrite
