#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/functors/dtype_dispatch.h"
#include "kernels/internal/backends.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/stream.h"

namespace giro::cuda {
namespace {

constexpr int kWarp = 32;
constexpr int kThreads = 128;
constexpr unsigned int kAllLanes = 0xffffffffu;

// One warp a row. dlogits may be logits, so neither is __restrict__: each lane reads an element before it
// writes it.
template <class Label>
__global__ void softmax_cross_entropy_kernel(float* losses, float* dlogits, const float* logits, const Label* labels,
                                             std::int64_t rows, std::int64_t columns) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::int64_t row =
      static_cast<std::int64_t>(blockIdx.x) * (kThreads / kWarp) + static_cast<int>(threadIdx.x) / kWarp;
  if (row >= rows) return;  // whole warps alike
  const float* x = logits + row * columns;

  float largest = -INFINITY;
  for (std::int64_t c = lane; c < columns; c += kWarp) largest = fmaxf(largest, x[c]);
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, offset));
  }
  // fmaxf passes over a NaN; the sum meets it.
  // Kahan's summation: a lane adds up tens of thousands of terms where there are a million classes.
  float sum = 0.0f, lost = 0.0f;
  for (std::int64_t c = lane; c < columns; c += kWarp) {
    const float term = expf(x[c] - largest) - lost, next = sum + term;
    lost = (next - sum) - term;
    sum = next;
  }
  for (int offset = kWarp / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(kAllLanes, sum, offset);

  const std::int64_t label = static_cast<std::int64_t>(labels[row]);
  const bool known = label >= 0 && label < columns;
  if (lane == 0) losses[row] = known ? logf(sum) + (largest - x[label]) : NAN;
  if (dlogits == nullptr) return;
  __syncwarp();  // the label's logit is read
  for (std::int64_t c = lane; c < columns; c += kWarp) {
    const float gradient = expf(x[c] - largest) / sum - (c == label ? 1.0f : 0.0f);
    dlogits[row * columns + c] = known ? gradient : NAN;
  }
}

}  // namespace

void softmax_cross_entropy(const Tensor& losses, const Tensor& dlogits, const Tensor& logits, const Tensor& labels,
                           const Stream& stream) {
  const std::int64_t rows = logits.shape()[0], columns = logits.shape()[1];
  if (rows == 0) return;
  functors::with_integer(labels.dtype(), [&]<class Label>(functors::Type<Label>) {
    softmax_cross_entropy_kernel<<<blocks_for(rows, kThreads / kWarp), kThreads, 0, handle(stream)>>>(
        losses.data<float>(), dlogits ? dlogits.data<float>() : nullptr, logits.data<float>(), labels.data<Label>(),
        rows, columns);
    check_launch("softmax_cross_entropy_kernel");
  });
}

}  // namespace giro::cuda
