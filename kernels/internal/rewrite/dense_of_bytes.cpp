#include <giro/kernels/dense.h>

#include "kernels/cpu/narrow_dense.h"
#include "kernels/internal/rewrite/patterns.h"
#include "kernels/internal/rewrite/rules.h"

namespace giro::rewrite {

// Images that are stored as bytes stay bytes where only narrow dense layers read them: these scale them as they read,
// and a quarter of the memory is moved. On the CPU alone: a GPU's products want floats.
bool dense_of_bytes(OpList& ops, std::size_t i) {
  const Stream stream = ops[i].stream;
  const std::optional<Scaling> scaling = scaling_of(ops[i]);
  if (!scaling || stream.device().is_cuda()) return false;
  const auto readers = ops.readers(i, scaling->out);
  if (scaling->in.dtype() != DType::u8 || scaling->out.dtype() != DType::f32 || !readers || readers->empty()) {
    return false;
  }
  for (const std::size_t k : *readers) {
    const auto* const dense = GIRO_ARGUMENTS(ops[k], dense);
    const auto* const backward = GIRO_ARGUMENTS(ops[k], dense_backward);
    const bool reads_it = dense != nullptr      ? same(std::get<1>(*dense), scaling->out)
                          : backward != nullptr ? same(std::get<4>(*backward), scaling->out) && !std::get<0>(*backward)
                                                : false;
    if (!reads_it ||
        !cpu::narrow::can_run((dense != nullptr ? std::get<0>(*dense) : std::get<3>(*backward)).shape()[1]) ||
        !ops.stays(scaling->in, i, k)) {
      return false;
    }
  }
  for (const std::size_t k : *readers) {
    if (const auto* const dense = GIRO_ARGUMENTS(ops[k], dense)) {
      const auto [y, x, w, b, math] = *dense;
      giro::dense_of_bytes(y, scaling->in.reshape(x.shape()), scaling->factor, w, b, stream);
    } else {
      const auto [dx, dw, db, dz, x, w, math] = *GIRO_ARGUMENTS(ops[k], dense_backward);
      dense_of_bytes_backward(dw, db, dz, scaling->in.reshape(x.shape()), scaling->factor, stream);
    }
    ops.replace(k);
  }
  ops.drop(i);
  return true;
}

}  // namespace giro::rewrite
