#include <utility>

#include "kernels/ops.h"
#include "kernels/rules/op_list.h"
#include "kernels/rules/patterns.h"
#include "kernels/rules/rules.h"

namespace giro::rules {
namespace {

// The only reader of op `i`'s floats, if all it does is convert them to 16 bits.
std::optional<std::size_t> conversion_of(const OpList& ops, std::size_t i, const Tensor& floats) {
  const auto reader = ops.only_reader(i, floats);
  const std::optional<Scaling> next = reader ? scaling_of(ops[*reader]) : std::nullopt;
  const bool converts = next && same(next->in, floats) && next->factor == 1 && is_16_bit(next->out.dtype());
  return converts ? reader : std::nullopt;
}

}  // namespace

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
    if (const auto next = out.dtype() == DType::u8 ? ops.only_reader(k, out) : std::nullopt) {
      const std::optional<Scaling> scaling = scaling_of(ops[*next]);
      if (scaling && same(scaling->in, out) && scaling->out.dtype() == DType::f32 &&
          ops.can_run_early(*next, i, gone)) {
        array = {scaling->out.reshape(out.shape()), gather->src, static_cast<float>(scaling->factor)};
        gone.push_back(*next);
        const auto conversion = conversion_of(ops, *next, scaling->out);
        if (conversion && ops.can_run_early(*conversion, i, gone)) {
          array.out = scaling_of(ops[*conversion])->out.reshape(out.shape());
          gone.push_back(*conversion);
        }
      }
    }
    batch.arrays.push_back(array);
  }
  ops.replace(i, std::move(batch), gone);
  return true;
}

}  // namespace giro::rules
