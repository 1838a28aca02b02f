#include <giro/kernels/gather.h>

#include <vector>

#include "kernels/checks.h"
#include "kernels/ops.h"
#include "runtime/throw_error.h"

namespace giro {

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

void batch_indices(const Tensor& indices, const ByteRing& positions, const RowOrder& order, const Stream& stream) {
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
