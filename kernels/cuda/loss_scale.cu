#include "kernels/functors/loss_scale.h"

#include "kernels/cuda/for_each.cuh"
#include "kernels/internal/backends.h"

namespace giro::cuda {

void adjust_loss_scale(const optim::LossScale& scale, const Tensor& squared_norm, const Stream& stream) {
  functors::adjust_loss_scale(ForEach{stream}, scale, squared_norm);
}

}  // namespace giro::cuda
