#include <cub/block/block_reduce.cuh>

#include <cstdint>

#include "kernels/cuda/as_expressions.h"
#include "kernels/cuda/kernel_launch.cuh"
#include "kernels/cuda/last_block.cuh"
#include "kernels/elementwise.h"
#include "kernels/host_device/fault.h"
#include "kernels/host_device/storage.h"
#include "kernels/ops.h"

namespace giro::cuda {
namespace {

constexpr int kWarp = 32;

// Called by a whole warp: whether the largest of x[0, columns) (in a tie, the first) is at `label` and none is NaN.
template <class T>
__device__ bool is_correct(const T* x, std::int64_t columns, std::int64_t label, int lane) {
  if (label < 0 || label >= columns) return false;
  const auto at_label = static_cast<float>(x[label]);
  bool correct = true;
  for (std::int64_t c = lane; c < columns; c += kWarp) {
    const auto value = static_cast<float>(x[c]);
    correct = correct && (value < at_label || (value == at_label && c >= label));
  }
  return __all_sync(kAllLanes, correct) != 0;
}

using host_device::Output;

// Called by a whole warp: returns a row's loss and writes `factor` times its gradient, unless dlogits has no memory.
// dlogits may be the logits, so neither is __restrict__: each lane reads an element before it writes it.
template <class T>
__device__ float row_loss(const Output& dlogits, const T* logits, std::int64_t row, std::int64_t columns,
                          std::int64_t label, float factor, const host_device::Fault& fault, int lane) {
  const auto x = [&](std::int64_t c) { return static_cast<float>(logits[row * columns + c]); };
  float largest = -INFINITY;
  for (std::int64_t c = lane; c < columns; c += kWarp) largest = fmaxf(largest, x(c));
  largest = reduce_lanes<kWarp>(largest, [](float a, float b) { return fmaxf(a, b); });
  // fmaxf ignores NaN, but the sum does not.
  float sum = 0.0f;
  for (std::int64_t c = lane; c < columns; c += kWarp) sum += expf(x(c) - largest);
  sum = reduce_lanes<kWarp>(sum, [](float a, float b) { return a + b; });

  const bool known = label >= 0 && label < columns;
  if (!known && lane == 0) fault(row, label);
  const float loss = known ? logf(sum) + (largest - x(label)) : NAN;
  if (dlogits.data == nullptr) return loss;
  __syncwarp();  // all lanes have read the label's logit
  for (std::int64_t c = lane; c < columns; c += kWarp) {
    const float slope = expf(x(c) - largest) / sum - (c == label ? 1.0f : 0.0f);
    dlogits.store(row * columns + c, factor * (known ? slope : NAN));
  }
  return loss;
}

constexpr int kUnit = 8;  // as in a generated sum (expression_plan.h)
constexpr int kMaxUnits = ops::MeanCrossEntropy::kMaxRows / kUnit;
constexpr int kUnitsOfFloats = 128;  // units joined in f32

// Called by a whole block of kSize threads: thread 0 gets the sum of losses[0, rows), in the same order as a generated
// kernel: the elements of a unit in order, then units in pairs, first in f32 and at the end in double.
template <int kSize>
__device__ float sum_of_rows(const float* losses, int rows) {
  __shared__ float units[kMaxUnits];
  for (int u = static_cast<int>(threadIdx.x); u < kMaxUnits; u += kSize) {
    float sum = 0.0f;
    for (int r = u * kUnit; r < (u + 1) * kUnit && r < rows; ++r) sum += losses[r];
    units[u] = sum;
  }
  for (int step = 1; step * kUnit < rows && step < kUnitsOfFloats; step *= 2) {
    __syncthreads();
    for (int u = 2 * step * static_cast<int>(threadIdx.x); u < kMaxUnits; u += 2 * step * kSize) {
      units[u] += units[u + step];
    }
  }
  __syncthreads();
  const auto part = [&](int i) { return static_cast<double>(units[i * kUnitsOfFloats]); };
  return static_cast<float>((part(0) + part(1)) + (part(2) + part(3)));
}
static_assert(kMaxUnits == 4 * kUnitsOfFloats);

// Called by a whole block of kSize threads: writes the mean of losses[0, rows) and, unless `accuracy` is null, the
// fraction of correct rows.
template <int kSize>
__device__ void means_of_rows(float* loss, float* accuracy, const float* losses, const unsigned char* correct,
                              std::int64_t rows) {
  const float sum = sum_of_rows<kSize>(losses, static_cast<int>(rows));
  int hits = 0;
  for (std::int64_t r = threadIdx.x; accuracy != nullptr && r < rows; r += kSize) hits += correct[r];
  using ReduceHits = cub::BlockReduce<int, kSize>;
  __shared__ typename ReduceHits::TempStorage storage;
  if (accuracy != nullptr) hits = ReduceHits(storage).Sum(hits);
  if (threadIdx.x != 0) return;
  loss[0] = sum / static_cast<float>(rows);
  if (accuracy != nullptr) accuracy[0] = static_cast<float>(hits) / static_cast<float>(rows);
}

// Called by all blocks of kSize threads: computes the losses of all rows and, unless `correct` is null, whether the
// rows are correct. One warp per row.
template <int kSize, class T, class Label>
__device__ void losses_of_rows(float* losses, const Output& dlogits, unsigned char* correct, const T* logits,
                               const Label* labels, std::int64_t rows, std::int64_t columns, float factor,
                               const host_device::Fault& fault) {
  constexpr int kRows = kSize / kWarp;  // of a block
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  for (std::int64_t row = std::int64_t{blockIdx.x} * kRows + warp; row < rows; row += std::int64_t{gridDim.x} * kRows) {
    const auto label = static_cast<std::int64_t>(labels[row]);
    const bool hit = correct != nullptr && is_correct(logits + row * columns, columns, label, lane);
    __syncwarp();  // before dlogits may overwrite the logits
    const float loss = row_loss(dlogits, logits, row, columns, label, factor, fault, lane);
    if (lane != 0) continue;
    losses[row] = loss;
    if (correct != nullptr) correct[row] = hit;
  }
}

constexpr int kRowThreads = 128;

template <class T, class Label>
__global__ void softmax_cross_entropy_kernel(float* losses, Output dlogits, const T* logits, const Label* labels,
                                             std::int64_t rows, std::int64_t columns, host_device::Fault fault) {
  losses_of_rows<kRowThreads>(losses, dlogits, nullptr, logits, labels, rows, columns, 1.0f, fault);
}

// For a batch that one block can handle.
constexpr int kSmallThreads = 1024;
constexpr std::int64_t kSmallRows = 128;

template <class T, class Label>
__global__ void small_mean_cross_entropy_kernel(float* loss, Output dlogits, float* accuracy, const T* logits,
                                                const Label* labels, std::int64_t rows, std::int64_t columns,
                                                float factor, host_device::Fault fault) {
  __shared__ float losses[kSmallRows];
  __shared__ unsigned char correct[kSmallRows];
  losses_of_rows<kSmallThreads>(losses, dlogits, accuracy == nullptr ? nullptr : correct, logits, labels, rows, columns,
                                factor, fault);
  __syncthreads();
  means_of_rows<kSmallThreads>(loss, accuracy, losses, correct, rows);
}

constexpr int kMeanThreads = 256;

// The last block computes the means.
template <class T, class Label>
__global__ void mean_cross_entropy_kernel(float* loss, Output dlogits, float* accuracy, float* losses,
                                          unsigned char* correct, unsigned int* arrivals, const T* logits,
                                          const Label* labels, std::int64_t rows, std::int64_t columns, float factor,
                                          host_device::Fault fault) {
  losses_of_rows<kMeanThreads>(losses, dlogits, accuracy == nullptr ? nullptr : correct, logits, labels, rows, columns,
                               factor, fault);
  if (!is_last_block(arrivals, gridDim.x)) return;
  means_of_rows<kMeanThreads>(loss, accuracy, losses, correct, rows);
}

template <class Label>
struct ReportLabels {
  const Label* labels;
  std::int64_t classes;
  host_device::Fault fault;
  GIRO_HOST_DEVICE void operator()(std::int64_t row) const {
    const auto label = static_cast<std::int64_t>(labels[row]);
    if (label < 0 || label >= classes) fault(row, label);
  }
};

// For a generated kernel, which has no way to report them.
void report_labels(const Fault& fault, const Tensor& labels, std::int64_t classes, const Stream& stream) {
  if (fault.words == nullptr) return;
  host_device::with_integer(labels.dtype(), [&]<class Label>(host_device::Type<Label>) {
    for_each(stream, labels.count(), ReportLabels<Label>{labels.data<Label>(), classes, host_device::Fault(fault)});
  });
}

template <class F>
void with_types(const Tensor& logits, const Tensor& labels, F&& f) {
  host_device::with_storage(logits.dtype(), [&](auto logit) {
    host_device::with_integer(labels.dtype(), [&](auto label) { f(logit, label); });
  });
}

}  // namespace

void run(const ops::SoftmaxCrossEntropy& op, const Stream& stream) {
  const std::int64_t rows = op.logits.shape()[0], columns = op.logits.shape()[1];
  if (rows == 0) return;
  if (columns >= kClassesOfBlocks) {
    report_labels(op.fault, op.labels, columns, stream);
    return cuda::run(cross_entropy_rows(op.losses, op.dlogits, op.logits, op.labels, 1), stream);
  }
  with_types(op.logits, op.labels, [&]<class T, class Label>(host_device::Type<T>, host_device::Type<Label>) {
    softmax_cross_entropy_kernel<<<blocks_for(rows, kRowThreads / kWarp), kRowThreads, 0, handle(stream)>>>(
        op.losses.data<float>(), Output(op.dlogits), op.logits.data<T>(), op.labels.data<Label>(), rows, columns,
        host_device::Fault(op.fault));
    check_launch("softmax_cross_entropy_kernel");
  });
}

namespace {

// Computes each row's loss and whether it is correct, then the means.
void run_with_blocks(const ops::MeanCrossEntropy& op, const Stream& stream) {
  const Shape rows = op.labels.shape();
  const Temporary losses(DType::f32, rows, stream);
  if (op.accuracy) {
    const Temporary hits(DType::f32, rows, stream);
    cuda::run(ops::correct_rows(hits, op.logits, op.labels), stream);
    ops::mean(op.accuracy, hits, stream);
  }
  report_labels(op.fault, op.labels, op.logits.shape()[1], stream);
  cuda::run(cross_entropy_rows(losses, op.dlogits, op.logits, op.labels, op.factor), stream);
  ops::mean(op.loss, losses, stream);
}

}  // namespace

void run(const ops::MeanCrossEntropy& op, const Stream& stream) {
  const std::int64_t rows = op.logits.shape()[0], columns = op.logits.shape()[1];
  if (columns >= kClassesOfBlocks) return run_with_blocks(op, stream);
  float* const share = op.accuracy ? op.accuracy.data<float>() : nullptr;
  with_types(op.logits, op.labels, [&]<class T, class Label>(host_device::Type<T>, host_device::Type<Label>) {
    if (rows <= kSmallRows) {
      small_mean_cross_entropy_kernel<<<1, kSmallThreads, 0, handle(stream)>>>(
          op.loss.data<float>(), Output(op.dlogits), share, op.logits.data<T>(), op.labels.data<Label>(), rows, columns,
          static_cast<float>(op.factor), host_device::Fault(op.fault));
      check_launch("small_mean_cross_entropy_kernel");
      return;
    }
    const Temporary losses(DType::f32, {rows}, stream), correct(DType::u8, {rows}, stream);
    mean_cross_entropy_kernel<<<blocks_for(rows, kMeanThreads / kWarp), kMeanThreads, 0, handle(stream)>>>(
        op.loss.data<float>(), Output(op.dlogits), share, losses.data<float>(), correct.data<std::uint8_t>(),
        cuda_stream(stream).arrivals(), op.logits.data<T>(), op.labels.data<Label>(), rows, columns,
        static_cast<float>(op.factor), host_device::Fault(op.fault));
    check_launch("mean_cross_entropy_kernel");
  });
}

}  // namespace giro::cuda
