#include <giro/kernels/gather.h>

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include <giro/runtime/error.h>

#include "kernels/internal/backends.h"
#include "kernels/internal/checks.h"
#include "kernels/internal/dispatch.h"

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

void gather_batch(const std::vector<GatheredArray>& arrays, const SlotRing& positions, const RowOrder& order,
                  const Stream& stream) {
  constexpr std::string_view op = "gather_batch";
  checks::is_slot_ring(op, positions, stream);
  if (order.size < 1 || arrays.empty() || arrays.size() > kMostGathered) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: {} arrays and an order of {} rows, expected 1 to {} arrays and at least 1 row", op,
                            arrays.size(), order.size, kMostGathered));
  }
  std::vector<Tensor> writes, reads{positions.slots, positions.call};
  double flops = 0;
  std::int64_t bytes = 0;
  for (const GatheredArray& array : arrays) {
    const Tensor &out = array.out, &src = array.src;
    checks::on_device(op, {{"out", out}, {"src", src}}, stream);
    const bool converts = out.dtype() == DType::f32 && src.dtype() == DType::u8;
    if (!converts) checks::same_dtype(op, {"out", out}, {"src", src});
    if (out.shape().rank() < 1 || src.shape().rank() < 1) {
      throw Error(ErrorCode::shape_mismatch,
                  fmt::format("{}: out is {}, src is {}; expected rows", op, to_string(out), to_string(src)));
    }
    checks::has_shape(op, {"out", out}, src.shape().drop_front().with_front(arrays.front().out.shape()[0]));
    writes.push_back(out);
    reads.push_back(src);
    if (converts) flops += elements(out);
    bytes += static_cast<std::int64_t>(out.bytes()) + out.count() * static_cast<std::int64_t>(size_of(src.dtype()));
  }
  GIRO_QUEUE(stream, gather_batch, (arrays, positions, order), writes, reads, flops, bytes);
}

}  // namespace giro
