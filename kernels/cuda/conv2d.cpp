#include <cudnn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <giro/kernels/conv2d.h>
#include <giro/kernels/elementwise.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/bias.h"
#include "kernels/cuda/convolution_plan.h"
#include "kernels/cuda/tiled_conv2d.h"
#include "kernels/internal/ops.h"
#include "runtime/cuda/disk_cache.h"
#include "runtime/cuda/stream.h"

namespace giro::cuda {
namespace {

using Result = Convolution::Result;

struct PlannedConvolution {
  ConvolutionPlan plan;
  std::string key, device;  // of the plan on disk, and the GPU that it is for
  bool is_stored;           // or was loaded
};

std::vector<std::int64_t> key_of(const Convolution& c) {
  std::vector<std::int64_t> key{static_cast<int>(c.result), static_cast<int>(c.dtype), static_cast<int>(c.math),
                                c.has_bias, c.has_relu};
  for (const Shape& shape : {c.x, c.w, c.y}) key.insert(key.end(), shape.begin(), shape.end());
  for (const auto& axes : {c.options.stride, c.options.pad_before, c.options.pad_after}) {
    key.insert(key.end(), axes.begin(), axes.end());
  }
  return key;
}

PlannedConvolution make_plan(const Convolution& convolution, const std::vector<std::int64_t>& key, Device device) {
  const std::string description = describe_device(device.index());
  const std::string on_disk =
      fmt::format("{} {} convolution {}", ConvolutionPlan::version(), description, fmt::join(key, " "));
  if (const auto serialized = DiskCache::of_process().find(on_disk)) {
    if (auto plan = ConvolutionPlan::load(*serialized, description)) {
      return {std::move(*plan), on_disk, description, true};
    }
  }
  return {ConvolutionPlan::find(convolution, description), on_disk, description, false};
}

// Whether cuDNN has a plan for operands that lie so, and runs it.
bool run_by_cudnn(const Convolution& convolution, const ConvolutionPlan::Operands& operands, const Stream& stream) {
  if (!ConvolutionPlan::takes(operands)) return false;
  CudaStream& owner = cuda_stream(stream);
  const std::vector<std::int64_t> key = key_of(convolution);
  auto& planned = owner.plan<PlannedConvolution>(key, [&] {
    std::optional<PlannedConvolution> made;
    owner.outside_capture([&] { made = make_plan(convolution, key, stream.device()); });
    return std::move(*made);
  });
  while (planned.plan) {
    const std::size_t bytes = planned.plan.workspace_bytes();
    // From the stream's arena, so that in a recording the graph owns it.
    const Buffer workspace = bytes > 0 ? stream.allocate(bytes) : Buffer();
    if (planned.plan.run(owner.cudnn(), operands, workspace.data())) {
      if (!planned.is_stored) DiskCache::of_process().add(planned.key, planned.plan.serialized());
      planned.is_stored = true;
      return true;
    }
    // A plan that was loaded has no further candidates.
    if (!planned.plan && planned.is_stored) planned.plan = ConvolutionPlan::find(convolution, planned.device);
    planned.is_stored = false;
  }
  return false;
}

Window window_of(const Conv2dOptions& options) { return {options.stride, options.pad_before}; }

}  // namespace

void run(const ops::Conv2d& op, const Stream& stream) {
  if (op.y.count() == 0) return;
  Convolution convolution{Result::y, op.x.shape(), op.w.shape(), op.y.shape(), op.options, op.y.dtype(), op.math};
  convolution.has_relu = op.has_relu;
  convolution.has_bias = op.b && op.b.dtype() == op.y.dtype();  // cuDNN adds no other
  if (run_by_cudnn(convolution, {op.x.raw(), op.w.raw(), op.y.raw(), convolution.has_bias ? op.b.raw() : nullptr},
                   stream)) {
    if (!convolution.has_bias) add_bias(op.y, op.b, stream);
  } else {
    tiled_conv2d(op.y, op.x, op.w, op.b, op.has_relu, window_of(op.options), stream);
  }
}

void run(const ops::Conv2dBackward& op, const Stream& stream) {
  const std::int64_t channels = op.dz.shape()[3];
  if (op.db) {
    cuda::run(ops::SumRows{op.db, op.dz.reshape({channels > 0 ? op.dz.count() / channels : 0, channels})}, stream);
  }
  if (op.dz.count() == 0) {
    if (op.dw) stream.fill(op.dw.raw(), 0, op.dw.bytes());
    if (op.dx) stream.fill(op.dx.raw(), 0, op.dx.bytes());
    return;
  }
  Convolution convolution{Result::dw, op.x_shape(), op.w_shape(), op.dz.shape(), op.options, op.dz.dtype(), op.math};
  if (op.dw) {
    // For 16-bit images cuDNN computes 16-bit gradients.
    const bool rounds = op.dw.dtype() != op.x.dtype();
    const Buffer memory =
        rounds ? stream.allocate(static_cast<std::size_t>(op.dw.count()) * size_of(op.x.dtype())) : Buffer();
    const Tensor rounded = rounds ? Tensor(memory.data(), op.x.dtype(), op.dw.shape(), op.dw.device()) : Tensor(op.dw);
    if (!run_by_cudnn(convolution, {op.x.raw(), rounded.raw(), op.dz.raw()}, stream)) {
      tiled_conv2d_backward_filter(op.dw, op.dz, op.x, window_of(op.options), stream);
    } else if (rounds) {
      giro::cast(op.dw, rounded, stream);
    }
  }
  if (op.dx) {
    convolution.result = Result::dx;
    if (!run_by_cudnn(convolution, {op.dx.raw(), op.w.raw(), op.dz.raw()}, stream)) {
      tiled_conv2d_backward_data(op.dx, op.dz, op.w, window_of(op.options), stream);
    }
  }
}

}  // namespace giro::cuda
