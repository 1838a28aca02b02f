#include <utility>

#include "kernels/ops.h"
#include "kernels/rules/op_list.h"
#include "kernels/rules/patterns.h"
#include "kernels/rules/rules.h"

namespace giro::rules {

// Gathers all arrays of a batch in one pass that computes the row indices itself. The same pass converts bytes to f32,
// bf16 or f16 where needed.
bool fuse_gathers(OpList& ops, std::size_t i) {
  const auto* const indices = detail::op_of<ops::BatchIndices>(ops[i]);
  if (indices == nullptr) return false;
  const Tensor& rows = indices->indices;
  const auto readers = ops.readers(i, rows);
  if (!readers || readers->empty() || readers->size() > ops::GatherBatch::kMax) return false;
  ops::GatherBatch batch{indices->slots, indices->call, {}, indices->order};
  std::vector<std::size_t> gone = *readers;
  for (const std::size_t k : *readers) {
    const auto* const gather = detail::op_of<ops::GatherRows>(ops[k]);
    if (gather == nullptr || gather->axis != 0 || gather->fault.words != nullptr || !same(gather->indices, rows) ||
        !ops.can_run_early(k, i))
      return false;
    const Tensor& out = gather->out;
    ops::GatheredArray array{out, gather->src};
    const auto scaling = out.dtype() == DType::u8 ? only_reader_as(scaling_of, ops, k, out) : std::nullopt;
    if (scaling && scaling->out.dtype() == DType::f32 && ops.can_run_early(scaling->at, i, gone)) {
      array = {scaling->out.reshape(out.shape()), gather->src, static_cast<float>(scaling->factor)};
      gone.push_back(scaling->at);
      const auto conversion = only_reader_as(scaling_of, ops, scaling->at, scaling->out);
      if (conversion && conversion->factor == 1 && is_16_bit(conversion->out.dtype()) &&
          ops.can_run_early(conversion->at, i, gone)) {
        array.out = conversion->out.reshape(out.shape());
        gone.push_back(conversion->at);
      }
    }
    batch.arrays.push_back(array);
  }
  ops.replace(i, std::move(batch), gone);
  return true;
}

}  // namespace giro::rules
