#include "kernels/cpu/narrow_dense.h"
#include "kernels/ops.h"
#include "kernels/rules/op_list.h"
#include "kernels/rules/patterns.h"
#include "kernels/rules/rules.h"

namespace giro::rules {

// Images stored as bytes are not converted if only narrow dense layers read them. The layers scale the bytes as they
// read them, which moves a quarter of the memory. On a GPU, products need floats.
bool dense_u8(OpList& ops, std::size_t i) {
  const std::optional<Scaling> scaling = scaling_of(ops[i]);
  if (!scaling) return false;
  const auto readers = ops.readers(i, scaling->out);
  if (scaling->in.dtype() != DType::u8 || scaling->out.dtype() != DType::f32 || !readers || readers->empty()) {
    return false;
  }
  for (const std::size_t k : *readers) {
    const auto* const dense = detail::op_of<ops::Dense>(ops[k]);
    const auto* const backward = detail::op_of<ops::DenseBackward>(ops[k]);
    const bool reads_it = dense != nullptr      ? same(dense->x, scaling->out)
                          : backward != nullptr ? same(backward->x, scaling->out) && !backward->dx
                                                : false;
    if (!reads_it || !ops.is_unchanged(scaling->in, i, k)) return false;
    const std::int64_t outputs = dense != nullptr ? dense->y.shape()[1] : backward->dz.shape()[1];
    if (!cpu::narrow::can_run(outputs)) return false;
  }
  for (const std::size_t k : *readers) {
    const auto bytes = [&](const Tensor& x) { return scaling->in.reshape(x.shape()); };
    if (const auto* const dense = detail::op_of<ops::Dense>(ops[k])) {
      ops.replace(k, "dense_u8",
                  ops::Dense{dense->y, bytes(dense->x), dense->w, dense->b, dense->math, scaling->factor});
    } else {
      ops::DenseBackward backward = *detail::op_of<ops::DenseBackward>(ops[k]);
      backward.x = bytes(backward.x);
      backward.factor = scaling->factor;
      ops.replace(k, "dense_u8_backward", backward);
    }
  }
  ops.drop(i);
  return true;
}

}  // namespace giro::rules
