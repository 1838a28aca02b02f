#include "kernels/functors/update.h"

#include <new>

#include "kernels/cuda/last_block.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/publish.cuh"
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
__device__ void update_elements(const optim::UpdateRule& rule, const Leaves& leaves) {
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

template <optim::Rule kRule, bool kHasMomentum>
__global__ void update_kernel(optim::UpdateRule rule, Leaves leaves) {
  update_elements<kRule, kHasMomentum>(rule, leaves);
}

template <optim::Rule kRule, bool kHasMomentum>
__global__ void update_and_publish_kernel(optim::UpdateRule rule, Leaves leaves, unsigned int* arrivals, RowRing ring,
                                          std::int64_t* row, RowPart part) {
  update_elements<kRule, kHasMomentum>(rule, leaves);
  if (!is_last_block(arrivals, gridDim.x) || threadIdx.x >= kPublishWarp) return;
  publish(ring, row, part, static_cast<int>(threadIdx.x));
}

template <class T>
T* data_or_null(const Tensor& tensor) {
  return tensor ? tensor.data<T>() : nullptr;
}

Leaves leaves_of(const optim::UpdateTensors& tensors) {
  return {tensors.params.data<float>(),
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
}

// Calls launch.operator()<rule, has momentum>(blocks).
template <class Launch>
void with_rule(const optim::UpdateRule& rule, const Leaves& leaves, const Launch& launch) {
  const auto blocks = blocks_for(leaves.count / Pack::kSize, kThreads, kMostBlocks);
  if (rule.rule == optim::Rule::adam) {
    launch.template operator()<optim::Rule::adam, true>(blocks);
  } else if (leaves.mu != nullptr) {
    launch.template operator()<optim::Rule::sgd, true>(blocks);
  } else {
    launch.template operator()<optim::Rule::sgd, false>(blocks);
  }
}

}  // namespace

void update(const optim::UpdateRule& rule, const optim::UpdateTensors& tensors, const Stream& stream) {
  const Leaves leaves = leaves_of(tensors);
  with_rule(rule, leaves, [&]<optim::Rule kRule, bool kHasMomentum>(auto blocks) {
    update_kernel<kRule, kHasMomentum><<<blocks, kThreads, 0, handle(stream)>>>(rule, leaves);
    check_launch("update_kernel");
  });
}

void update_and_publish(const optim::UpdateRule& rule, const optim::UpdateTensors& tensors, const RowRing& ring,
                        const Tensor& row, const RowPart& part, const Stream& stream) {
  const Leaves leaves = leaves_of(tensors);
  with_rule(rule, leaves, [&]<optim::Rule kRule, bool kHasMomentum>(auto blocks) {
    update_and_publish_kernel<kRule, kHasMomentum><<<blocks, kThreads, 0, handle(stream)>>>(
        rule, leaves, cuda_stream(stream).arrivals(), ring, row.data<std::int64_t>(), part);
    check_launch("update_and_publish_kernel");
  });
}

}  // namespace giro::cuda
