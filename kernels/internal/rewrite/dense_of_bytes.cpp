#include <giro/kernels/dense.h>

#include "kernels/cpu/narrow_dense.h"
#include "kernels/internal/rewrite/rules.h"

namespace giro::rewrite {

// Images that are stored as bytes stay bytes where only narrow dense layers read them: these scale them as they read,
// and a quarter of the memory is moved. On the CPU alone: a GPU's products want floats.
bool dense_of_bytes(OpList& ops, std::size_t i) {
  const Stream stream = ops[i].stream;
  const auto* const scale = GIRO_ARGUMENTS(ops[i], scale);
  const auto* const cast = GIRO_ARGUMENTS(ops[i], cast);
  if ((scale == nullptr && cast == nullptr) || stream.device().is_cuda()) return false;
  const Tensor floats = scale != nullptr ? std::get<0>(*scale) : std::get<0>(*cast);
  const Tensor bytes = scale != nullptr ? std::get<1>(*scale) : std::get<1>(*cast);
  const double factor = scale != nullptr ? std::get<2>(*scale) : 1.0;
  const auto readers = ops.readers(i, floats);
  if (bytes.dtype() != DType::u8 || floats.dtype() != DType::f32 || !readers || readers->empty()) return false;
  for (const std::size_t k : *readers) {
    const auto* const dense = GIRO_ARGUMENTS(ops[k], dense);
    const auto* const backward = GIRO_ARGUMENTS(ops[k], dense_backward);
    const bool reads_it = dense != nullptr      ? same(std::get<1>(*dense), floats)
                          : backward != nullptr ? same(std::get<4>(*backward), floats) && !std::get<0>(*backward)
                                                : false;
    if (!reads_it ||
        !cpu::narrow::can_run((dense != nullptr ? std::get<0>(*dense) : std::get<3>(*backward)).shape()[1]) ||
        !ops.stays(bytes, i, k)) {
      return false;
    }
  }
  for (const std::size_t k : *readers) {
    if (const auto* const dense = GIRO_ARGUMENTS(ops[k], dense)) {
      const auto [y, x, w, b, f, math] = *dense;
      giro::dense_of_bytes(y, bytes.reshape(x.shape()), factor, w, b, f, stream);
      ops.replace(k);
    } else {
      const auto [dx, dw, db, dz, x, w, math] = *GIRO_ARGUMENTS(ops[k], dense_backward);
      dense_of_bytes_backward(dw, db, dz, bytes.reshape(x.shape()), factor, stream);
      ops.replace(k);
    }
  }
  ops.drop(i);
  return true;
}

}  // namespace giro::rewrite
