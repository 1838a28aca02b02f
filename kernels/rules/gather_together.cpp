#include <algorithm>
#include <utility>

#include "kernels/internal/ops.h"
#include "kernels/rules/patterns.h"
#include "kernels/rules/rules.h"

namespace giro::rules {
namespace {

// Whether the only reader of op `i`'s floats converts them to 16 bits. Bytes are then better spliced into that
// conversion.
bool becomes_16_bits(const OpList& ops, std::size_t i, const Tensor& floats) {
  const auto reader = ops.only_reader(i, floats);
  const std::optional<Scaling> next = reader ? scaling_of(ops[*reader]) : std::nullopt;
  return next && is_16_bit(next->out.dtype());
}

}  // namespace

// Gathers all arrays of a batch in one pass that finds the rows itself. The same pass converts bytes that are wanted as
// f32.
bool gather_together(OpList& ops, std::size_t i) {
  const Stream stream = ops[i].stream;
  const auto* const indices = detail::op_of<ops::BatchIndices>(ops[i]);
  if (indices == nullptr) return false;
  const Tensor& rows = indices->indices;
  const auto readers = ops.readers(i, rows);
  if (!readers || readers->empty() || readers->size() > ops::GatherBatch::kMost) return false;
  ops::GatherBatch batch{indices->slots, indices->call, {}, indices->order};
  std::vector<std::size_t> gone = *readers;
  for (const std::size_t k : *readers) {
    const auto* const gather = detail::op_of<ops::GatherRows>(ops[k]);
    if (gather == nullptr || gather->axis != 0 || !same(gather->indices, rows) || !ops.can_run_early(k, i))
      return false;
    const Tensor& out = gather->out;
    ops::GatheredArray array{out, gather->src};
    if (const auto next = out.dtype() == DType::u8 ? ops.only_reader(k, out) : std::nullopt) {
      const std::optional<Scaling> scaling = scaling_of(ops[*next]);
      if (scaling && same(scaling->in, out) && scaling->out.dtype() == DType::f32 &&
          ops.can_run_early(*next, i, gone) && !becomes_16_bits(ops, *next, scaling->out)) {
        array = {scaling->out.reshape(out.shape()), gather->src, static_cast<float>(scaling->factor)};
        gone.push_back(*next);
      }
    }
    batch.arrays.push_back(array);
  }
  queue(std::move(batch), stream);
  ops.replace(i, gone);
  return true;
}

}  // namespace giro::rules
