#include "kernels/functors/activation.h"

#include "kernels/cpu/for_each.h"
#include "kernels/internal/backends.h"

namespace giro::cpu {

void activation(const Tensor& y, const Tensor& x, Activation f, const Stream& stream) {
  functors::activation(ForEach{stream}, y, x, f);
}

void activation_backward(const Tensor& dx, const Tensor& dy, const Tensor& x_or_y, Activation f, const Stream& stream) {
  functors::activation_backward(ForEach{stream}, dx, dy, x_or_y, f);
}

}  // namespace giro::cpu
