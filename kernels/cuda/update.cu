#include "kernels/functors/update.h"

#include <new>

#include "kernels/cuda/launch.h"
#include "kernels/internal/backends.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/stream.h"

namespace giro::cuda {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMostBlocks = 2048;

// UpdateTensors as a kernel takes them by value; null where a tensor is empty.
struct Leaves {
  float* params;
  const float* grads;
  float *mu, *nu;
  const std::uint8_t* decays;
  const std::int64_t* step;
  float* learning_rate;
  const float *squared_norm, *loss_scale;
  const std::int64_t* skipped;
  std::int64_t count;
};

// Elements that one thread moves at a time.
struct alignas(16) Pack {
  static constexpr int kSize = 4;
  float values[kSize];
};
static_assert(optim::UpdateTensors::kGranule % Pack::kSize == 0, "a pack has one decay");

template <optim::Rule kRule, bool kHasMomentum>
__global__ void update_kernel(optim::UpdateRule rule, Leaves leaves) {
  using Coefficients = functors::UpdateCoefficients;
  __shared__ alignas(Coefficients) unsigned char storage[sizeof(Coefficients)];
  if (threadIdx.x == 0) {
    const auto* made = new (storage)
        Coefficients(Coefficients::at(rule, leaves.step, leaves.squared_norm, leaves.loss_scale, leaves.skipped));
    if (blockIdx.x == 0) *leaves.learning_rate = made->learning_rate;
  }
  __syncthreads();
  const Coefficients c = *reinterpret_cast<const Coefficients*>(storage);
  if (c.skips) return;

  auto* params = reinterpret_cast<Pack*>(leaves.params);
  const auto* grads = reinterpret_cast<const Pack*>(leaves.grads);
  auto* mu = reinterpret_cast<Pack*>(leaves.mu);
  auto* nu = reinterpret_cast<Pack*>(leaves.nu);
  const std::int64_t packs = leaves.count / Pack::kSize, stride = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t p = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; p < packs; p += stride) {
    const bool decays =
        leaves.decays == nullptr || leaves.decays[p * Pack::kSize / optim::UpdateTensors::kGranule] != 0;
    const float decay = decays ? c.decay : 0.0f;
    Pack param = params[p];
    const Pack grad = grads[p];
    if constexpr (kRule == optim::Rule::adam) {
      Pack first = mu[p], second = nu[p];
      for (int i = 0; i < Pack::kSize; ++i) {
        functors::adam_element(c, decay, param.values[i], grad.values[i], first.values[i], second.values[i]);
      }
      mu[p] = first;
      nu[p] = second;
    } else if constexpr (kHasMomentum) {
      Pack momentum = mu[p];
      for (int i = 0; i < Pack::kSize; ++i) {
        functors::sgd_element(c, rule.nesterov, decay, param.values[i], grad.values[i], &momentum.values[i]);
      }
      mu[p] = momentum;
    } else {
      for (int i = 0; i < Pack::kSize; ++i) {
        functors::sgd_element(c, rule.nesterov, decay, param.values[i], grad.values[i], nullptr);
      }
    }
    params[p] = param;
  }
}

template <class T>
T* data_or_null(const Tensor& tensor) {
  return tensor ? tensor.data<T>() : nullptr;
}

}  // namespace

void update(const optim::UpdateRule& rule, const optim::UpdateTensors& tensors, const Stream& stream) {
  const Leaves leaves{tensors.params.data<float>(),
                      tensors.grads.data<float>(),
                      data_or_null<float>(tensors.mu),
                      data_or_null<float>(tensors.nu),
                      data_or_null<std::uint8_t>(tensors.decays),
                      tensors.step.data<std::int64_t>(),
                      tensors.learning_rate.data<float>(),
                      data_or_null<float>(tensors.squared_norm),
                      data_or_null<float>(tensors.loss_scale),
                      data_or_null<std::int64_t>(tensors.skipped),
                      tensors.params.count()};
  const auto launch = [&](auto* kernel) {
    kernel<<<blocks_for(leaves.count / Pack::kSize, kThreads, kMostBlocks), kThreads, 0, handle(stream)>>>(rule,
                                                                                                           leaves);
    check_launch("update_kernel");
  };
  if (rule.rule == optim::Rule::adam) {
    launch(update_kernel<optim::Rule::adam, true>);
  } else if (leaves.mu != nullptr) {
    launch(update_kernel<optim::Rule::sgd, true>);
  } else {
    launch(update_kernel<optim::Rule::sgd, false>);
  }
}

}  // namespace giro::cuda
