#include "kernels/functors/pool.h"

#include "kernels/cuda/cudnn.h"
#include "kernels/cuda/for_each.cuh"
#include "kernels/cuda/sum_rows.cuh"
#include "kernels/internal/backends.h"

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

void avg_pool(const Tensor& y, const Tensor& x, const PoolOptions& options, const Stream& stream) {
  if (pool_windows_tile(x.shape(), options)) {
    return cuda::activation_avg_pool(y, x, Tensor(), Activation::none, options, stream);
  }
  pool(CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING, y, x, options, stream);
}

void avg_pool_backward(const Tensor& dx, const Tensor& dy, const PoolOptions& options, const Stream& stream) {
  if (dx.count() == 0) return;
  if (pool_windows_tile(dx.shape(), options)) {
    return cuda::avg_pool_activation_backward(dx, Tensor(), dy, dx, Tensor(), Activation::none, options, stream);
  }
  CudaStream& owner = cuda_stream(stream);
  const PoolPlan& p = plan(CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING, dx, dy, options, owner);
  // The gradient of a mean needs neither x nor y; cuDNN wants addresses for them all the same.
  check(cudnnPoolingBackward(owner.cudnn(), p.window, &kOne, p.y, dy.raw(), p.y, dy.raw(), p.x, dx.raw(), &kZero, p.x,
                             dx.raw()),
        "cudnnPoolingBackward");
}

void activation_avg_pool(const Tensor& y, const Tensor& z, const Tensor& b, Activation f, const PoolOptions& options,
                         const Stream& stream) {
  functors::with_activation(f == Activation::relu, [&]<class F>(F) {
    functors::with_storage(y.dtype(), [&]<class T>(functors::Type<T>) {
      ForEach{stream}(y.count(), functors::ActivationAveragePool<F, T>(y, z, b, options));
    });
  });
}

void avg_pool_activation_backward(const Tensor& dz, const Tensor& db, const Tensor& dy, const Tensor& x,
                                  const Tensor& b, Activation f, const PoolOptions& options, const Stream& stream) {
  functors::with_activation(f == Activation::relu, [&]<class F>(F) {
    functors::with_storage(dz.dtype(), [&]<class T>(functors::Type<T>) {
      const functors::AveragePoolActivationBackward<F, T> gradient(dz, dy, x, b, options);
      if (!db) {
        ForEach{stream}(dz.count(), gradient);
      } else {
        const std::int64_t channels = db.count(), pixels = channels > 0 ? dz.count() / channels : 0;
        sum_rows_of(functors::Output(db), pixels, channels, gradient, stream);
      }
    });
  });
}

void max_pool(const Tensor& y, const Tensor& x, const PoolOptions& options, const Stream& stream) {
  pool(CUDNN_POOLING_MAX_DETERMINISTIC, y, x, options, stream);
}

// Not cuDNN's, which does not say which of equal values takes the gradient.
void max_pool_backward(const Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& y, const PoolOptions& options,
                       const Stream& stream) {
  functors::max_pool_backward(ForEach{stream}, dx, dy, x, y, options);
}

}  // namespace giro::cuda
