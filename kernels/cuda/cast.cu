#include "kernels/cuda/for_each.cuh"
#include "kernels/functors/elementwise.h"
#include "kernels/internal/backends.h"

// Apart from the other elementwise ops: every pair of dtypes is a kernel of its own.
namespace giro::cuda {

void cast(const Tensor& out, const Tensor& a, const Stream& stream) { functors::cast(ForEach{stream}, out, a); }

}  // namespace giro::cuda
