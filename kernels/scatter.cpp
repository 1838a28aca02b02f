#include <giro/kernels/scatter.h>

#include <giro/kernels/sort.h>
#include <giro/runtime/buffer.h>

#include "kernels/checks.h"
#include "kernels/ops.h"
#include "runtime/throw_error.h"

namespace giro {

DType dtype_of_sums(DType updates) {
  if (is_16_bit(updates)) return DType::f32;
  return is_floating(updates) ? updates : DType::i64;
}

void scatter_add(const Tensor& sums, const Tensor& updates, const Tensor& indices, bool are_distinct,
                 const Stream& stream) {
  constexpr std::string_view op = "scatter_add";
  checks::on_device(op, {{"sums", sums}, {"updates", updates}, {"indices", indices}}, stream);
  if (!is_floating(updates.dtype()) && updates.dtype() != DType::i64) {
    throw_error(ErrorCode::dtype_mismatch, "{}: updates is {}, expected f32, bf16, f16, f64 or i64", op,
                to_string(updates));
  }
  checks::has_dtype(op, {"sums", sums}, dtype_of_sums(updates.dtype()));
  checks::is_integer(op, {"indices", indices});
  checks::has_rank(op, {"indices", indices}, 1);
  if (sums.shape().rank() == 0) {
    throw_error(ErrorCode::shape_mismatch, "{}: sums is {}, expected at least one axis", op, to_string(sums));
  }
  checks::has_shape(op, {"updates", updates}, sums.shape().drop_front().with_front(indices.count()));
  const std::int64_t count = indices.count();
  if (are_distinct || count < 2) return queue(ops::ScatterAdd{sums, updates, indices, {}}, stream);
  const Buffer memory = stream.allocate(static_cast<std::size_t>(count) * sizeof(std::int64_t));
  const Tensor order(memory.data(), DType::i64, {1, count}, stream.device());
  argsort(order, indices.reshape({1, count}), false, stream);
  queue(ops::ScatterAdd{sums, updates, indices, order.reshape({count})}, stream);
}

}  // namespace giro
