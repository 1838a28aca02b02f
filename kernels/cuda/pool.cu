#include "kernels/functors/pool.h"

#include "kernels/cuda/cudnn.h"
#include "kernels/cuda/for_each.cuh"
#include "kernels/internal/ops.h"

namespace giro::cuda {
namespace {

struct PoolPlan {
  Handle<cudnnPoolingDescriptor_t, cudnnDestroyPoolingDescriptor> window;
  TensorDescriptor x, y;
};

const PoolPlan& plan(cudnnPoolingMode_t mode, const Tensor& of_x, const Tensor& of_y, const PoolOptions& options,
                     CudaStream& stream) {
  const Shape &x = of_x.shape(), &y = of_y.shape();
  const DType dtype = of_x.dtype();
  const auto make = [&] {
    PoolPlan made;
    check(cudnnCreatePoolingDescriptor(made.window.out()), "cudnnCreatePoolingDescriptor");
    check(cudnnSetPooling2dDescriptor(made.window, mode, CUDNN_PROPAGATE_NAN, to_int(options.window[0]),
                                      to_int(options.window[1]), 0, 0, to_int(options.stride[0]),
                                      to_int(options.stride[1])),
          "cudnnSetPooling2dDescriptor");
    made.x = describe_images(x, dtype);
    made.y = describe_images(y, dtype);
    return made;
  };
  return stream.plan<PoolPlan>({mode, static_cast<int>(dtype), x[0], x[1], x[2], x[3], options.window[0],
                                options.window[1], options.stride[0], options.stride[1]},
                               make);
}

void pool(cudnnPoolingMode_t mode, const Tensor& y, const Tensor& x, const PoolOptions& options, const Stream& stream) {
  if (y.count() == 0) return;
  CudaStream& owner = cuda_stream(stream);
  const PoolPlan& p = plan(mode, x, y, options, owner);
  check(cudnnPoolingForward(owner.cudnn(), p.window, &kOne, p.x, x.raw(), &kZero, p.y, y.raw()), "cudnnPoolingForward");
}

}  // namespace

void run(const ops::AvgPool& op, const Stream& stream) {
  if (pool_windows_tile(op.x.shape(), op.options)) {
    return cuda::run(ops::ActivationAvgPool{.y = op.y, .z = op.x, .options = op.options}, stream);
  }
  pool(CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING, op.y, op.x, op.options, stream);
}

void run(const ops::AvgPoolBackward& op, const Stream& stream) {
  if (op.dx.count() == 0) return;
  if (pool_windows_tile(op.dx.shape(), op.options)) {
    return cuda::run(ops::AvgPoolActivationBackward{.dz = op.dx, .dy = op.dy, .x = op.dx, .options = op.options},
                     stream);
  }
  CudaStream& owner = cuda_stream(stream);
  const PoolPlan& p = plan(CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING, op.dx, op.dy, op.options, owner);
  // The gradient of a mean needs neither x nor y, but cuDNN requires addresses for them.
  check(cudnnPoolingBackward(owner.cudnn(), p.window, &kOne, p.y, op.dy.raw(), p.y, op.dy.raw(), p.x, op.dx.raw(),
                             &kZero, p.x, op.dx.raw()),
        "cudnnPoolingBackward");
}

void run(const ops::MaxPool& op, const Stream& stream) {
  pool(CUDNN_POOLING_MAX_DETERMINISTIC, op.y, op.x, op.options, stream);
}

// Not with cuDNN, which does not specify which of equal values gets the gradient.
void run(const ops::MaxPoolBackward& op, const Stream& stream) {
  functors::max_pool_backward(ForEach{stream}, op.dx, op.dy, op.x, op.y, op.options);
}

}  // namespace giro::cuda
