#include <giro/kernels/gather.h>

#include <algorithm>

#include "kernels/internal/rewrite/patterns.h"
#include "kernels/internal/rewrite/rules.h"

namespace giro::rewrite {
namespace {

// Whether one conversion to 16 bits alone reads op `i`'s floats: bytes are then better spliced into that.
bool becomes_16_bits(const OpList& ops, std::size_t i, const Tensor& floats) {
  const auto reader = ops.only_reader(i, floats);
  const std::optional<Scaling> next = reader ? scaling_of(ops[*reader]) : std::nullopt;
  return next && is_16_bit(next->out.dtype());
}

}  // namespace

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
      const std::optional<Scaling> scaling = scaling_of(ops[*next]);
      if (scaling && same(scaling->in, out) && scaling->out.dtype() == DType::f32 &&
          ops.can_run_early(*next, i, gone) && !becomes_16_bits(ops, *next, scaling->out)) {
        array = {scaling->out.reshape(out.shape()), src, static_cast<float>(scaling->factor)};
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
