#include "kernels/cuda/bias.h"

#include <cstdint>

#include "kernels/cuda/for_each.cuh"
#include "kernels/functors/activation.h"
#include "kernels/internal/backends.h"

namespace giro::cuda {
namespace {

template <class F, class T, class B>
struct BiasActivation {
  T* y;
  const B* b;
  std::int64_t channels;
  GIRO_HOST_DEVICE void operator()(std::int64_t i) const {
    y[i] = T(F::value(static_cast<float>(y[i]) + static_cast<float>(b[i % channels])));
  }
};

template <class F>
void launch(const Tensor& y, const Tensor& b, const Stream& stream) {
  functors::with_storage(y.dtype(), [&]<class T>(functors::Type<T>) {
    if (b.dtype() == y.dtype()) {
      ForEach{stream}(y.count(), BiasActivation<F, T, T>{y.data<T>(), b.data<T>(), b.count()});
    } else {
      ForEach{stream}(y.count(), BiasActivation<F, T, float>{y.data<T>(), b.data<float>(), b.count()});
    }
  });
}

}  // namespace

void bias_activation(const Tensor& y, const Tensor& b, Activation f, const Stream& stream) {
  if (!b) {
    if (f == Activation::relu) cuda::activation(y, y, f, stream);
  } else if (f == Activation::relu) {
    launch<functors::Relu>(y, b, stream);
  } else {
    launch<functors::Identity>(y, b, stream);
  }
}

}  // namespace giro::cuda
