#include <giro/kernels/gather.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "kernels/internal/checks.h"
#include "kernels/internal/ops.h"
#include "runtime/internal/throw_error.h"

namespace giro {

void RowOrder::rows(std::int64_t first, std::int64_t count, std::int64_t* out) const {
  while (count > 0) {
    const std::int64_t begin = first % size, in_epoch = std::min(count, size - begin);
    if (shuffled) {
      const KeyedPermutation order = permutation(first / size);
      for (std::int64_t i = 0; i < in_epoch; ++i) {
        out[i] = static_cast<std::int64_t>(order(static_cast<std::uint64_t>(begin + i)));
      }
    } else {
      std::iota(out, out + in_epoch, begin);
    }
    first += in_epoch;
    out += in_epoch;
    count -= in_epoch;
  }
}

void gather_rows(const Tensor& out, const Tensor& src, const Tensor& indices, const Stream& stream, std::size_t axis) {
  checks::on_device("gather_rows", {{"out", out}, {"src", src}, {"indices", indices}}, stream);
  checks::same_dtype("gather_rows", {"out", out}, {"src", src});
  checks::is_integer("gather_rows", {"indices", indices});
  checks::has_rank("gather_rows", {"indices", indices}, 1);
  if (axis >= src.shape().rank()) {
    throw_error(ErrorCode::shape_mismatch, "gather_rows: src is {}, expected an axis {}", to_string(src), axis);
  }
  std::vector<std::int64_t> sizes(src.shape().begin(), src.shape().end());
  sizes[axis] = indices.count();
  checks::has_shape("gather_rows", {"out", out}, Shape(sizes));
  queue(ops::GatherRows{out, src, indices, axis}, stream);
}

void batch_indices(const Tensor& indices, const SlotRing& positions, const RowOrder& order, const Stream& stream) {
  checks::on_device("batch_indices", {{"indices", indices}}, stream);
  checks::has_dtype("batch_indices", {"indices", indices}, DType::i64);
  checks::has_rank("batch_indices", {"indices", indices}, 1);
  checks::is_slot_ring("batch_indices", positions, stream);
  if (order.size < 1) {
    throw_error(ErrorCode::invalid_argument, "batch_indices: an order of {} rows, expected at least 1", order.size);
  }
  queue(ops::BatchIndices{indices, positions.slots, positions.call, order}, stream);
}

}  // namespace giro
