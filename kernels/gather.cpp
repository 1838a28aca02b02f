#include <giro/kernels/gather.h>

#include <fmt/format.h>

#include <giro/runtime/error.h>

#include "kernels/internal/backends.h"
#include "kernels/internal/checks.h"
#include "kernels/internal/dispatch.h"

namespace giro {

void gather_rows(const Tensor& out, const Tensor& src, const Tensor& indices, const Stream& stream) {
  checks::on_device("gather_rows", {{"out", out}, {"src", src}, {"indices", indices}}, stream);
  checks::same_dtype("gather_rows", {"out", out}, {"src", src});
  checks::is_integer("gather_rows", {"indices", indices});
  checks::has_rank("gather_rows", {"indices", indices}, 1);
  checks::has_shape("gather_rows", {"out", out}, src.shape().drop_front().with_front(indices.count()));
  GIRO_QUEUE(stream, gather_rows, (out, src, indices), {out}, {src, indices}, 0,
             static_cast<std::int64_t>(2 * out.bytes() + indices.bytes()));
}

void batch_indices(const Tensor& indices, const SlotRing& positions, const RowOrder& order, const Stream& stream) {
  checks::on_device("batch_indices", {{"indices", indices}}, stream);
  checks::has_dtype("batch_indices", {"indices", indices}, DType::i64);
  checks::has_rank("batch_indices", {"indices", indices}, 1);
  checks::is_slot_ring("batch_indices", positions, stream);
  if (order.size < 1) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("batch_indices: an order of {} rows, expected at least 1", order.size));
  }
  GIRO_QUEUE(stream, batch_indices, (indices, positions, order), {indices}, {positions.slots, positions.call}, 0,
             static_cast<std::int64_t>(indices.bytes()));
}

}  // namespace giro
