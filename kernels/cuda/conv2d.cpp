#include <giro/kernels/conv2d.h>
#include <giro/kernels/elementwise.h>

#include <array>

#include "kernels/cuda/bias.h"
#include "kernels/cuda/cudnn.h"
#include "kernels/cuda/pad.h"
#include "kernels/cuda/tiled_conv2d.h"
#include "kernels/internal/ops.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/stream.h"

namespace giro::cuda {
namespace {

using FilterDescriptor = Handle<cudnnFilterDescriptor_t, cudnnDestroyFilterDescriptor>;
using ConvolutionDescriptor = Handle<cudnnConvolutionDescriptor_t, cudnnDestroyConvolutionDescriptor>;

// What the three directions of a convolution share. cuDNN pads both ends of an axis equally. For other padding, images
// are padded beforehand and x is the padded shape.
struct Geometry {
  Shape x, w, y;
  std::array<std::int64_t, 2> stride, pad;
  DType dtype;  // of x, w and y
  Math math;
};

bool pads_evenly(const Conv2dOptions& options) { return options.pad_before == options.pad_after; }

Shape padded_shape(const Shape& x, const Conv2dOptions& options) {
  return {x[0], x[1] + options.pad_before[0] + options.pad_after[0],
          x[2] + options.pad_before[1] + options.pad_after[1], x[3]};
}

Geometry geometry_of(const Shape& x, const Shape& w, const Tensor& y, const Conv2dOptions& options, Math math) {
  return {x, w, y.shape(), options.stride, options.pad_before, y.dtype(), math};
}

// What cuDNN may compute in: true f32, TF32, or for 16 bits tensor cores, which accumulate in f32.
cudnnMathType_t math_type(const Geometry& g) {
  if (g.dtype != DType::f32) return CUDNN_TENSOR_OP_MATH;
  return g.math == Math::tf32 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH;
}

Window window_of(const Conv2dOptions& options) { return {options.stride, options.pad_before}; }

// cuDNN's three directions, and how to query their algorithms and workspace sizes.
struct Forward {
  using Result = cudnnConvolutionFwdAlgoPerf_t;
  static constexpr int kCandidates = CUDNN_CONVOLUTION_FWD_ALGO_COUNT;
};
struct BackwardData {
  using Result = cudnnConvolutionBwdDataAlgoPerf_t;
  static constexpr int kCandidates = CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT;
};
struct BackwardFilter {
  using Result = cudnnConvolutionBwdFilterAlgoPerf_t;
  static constexpr int kCandidates = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT;
};

struct Descriptors {
  TensorDescriptor x, y;
  FilterDescriptor w;
  ConvolutionDescriptor convolution;
};

cudnnStatus_t candidates(Forward, cudnnHandle_t cudnn, const Descriptors& d, int wanted, int* found,
                         Forward::Result* results) {
  return cudnnGetConvolutionForwardAlgorithm_v7(cudnn, d.x, d.w, d.convolution, d.y, wanted, found, results);
}
cudnnStatus_t candidates(BackwardData, cudnnHandle_t cudnn, const Descriptors& d, int wanted, int* found,
                         BackwardData::Result* results) {
  return cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnn, d.w, d.y, d.convolution, d.x, wanted, found, results);
}
cudnnStatus_t candidates(BackwardFilter, cudnnHandle_t cudnn, const Descriptors& d, int wanted, int* found,
                         BackwardFilter::Result* results) {
  return cudnnGetConvolutionBackwardFilterAlgorithm_v7(cudnn, d.x, d.y, d.convolution, d.w, wanted, found, results);
}

cudnnStatus_t workspace_size(cudnnHandle_t cudnn, const Descriptors& d, cudnnConvolutionFwdAlgo_t algorithm,
                             std::size_t* bytes) {
  return cudnnGetConvolutionForwardWorkspaceSize(cudnn, d.x, d.w, d.convolution, d.y, algorithm, bytes);
}
cudnnStatus_t workspace_size(cudnnHandle_t cudnn, const Descriptors& d, cudnnConvolutionBwdDataAlgo_t algorithm,
                             std::size_t* bytes) {
  return cudnnGetConvolutionBackwardDataWorkspaceSize(cudnn, d.w, d.y, d.convolution, d.x, algorithm, bytes);
}
cudnnStatus_t workspace_size(cudnnHandle_t cudnn, const Descriptors& d, cudnnConvolutionBwdFilterAlgo_t algorithm,
                             std::size_t* bytes) {
  return cudnnGetConvolutionBackwardFilterWorkspaceSize(cudnn, d.x, d.y, d.convolution, d.w, algorithm, bytes);
}

template <class Direction>
struct ConvolutionPlan : Descriptors {
  decltype(Direction::Result::algo) algorithm{};
  std::size_t workspace = 0;  // bytes
  bool found = false;         // false: cuDNN declines
};

Descriptors describe(const Geometry& g) {
  Descriptors made;
  made.x = describe_images(g.x, g.dtype);
  made.y = describe_images(g.y, g.dtype);
  check(cudnnCreateFilterDescriptor(made.w.out()), "cudnnCreateFilterDescriptor");
  // For NHWC, the order of memory is (O, KH, KW, I); the order of arguments stays (O, I, KH, KW).
  check(cudnnSetFilter4dDescriptor(made.w, data_type(g.dtype), CUDNN_TENSOR_NHWC, to_int(g.w[0]), to_int(g.w[3]),
                                   to_int(g.w[1]), to_int(g.w[2])),
        "cudnnSetFilter4dDescriptor");
  check(cudnnCreateConvolutionDescriptor(made.convolution.out()), "cudnnCreateConvolutionDescriptor");
  check(cudnnSetConvolution2dDescriptor(made.convolution, to_int(g.pad[0]), to_int(g.pad[1]), to_int(g.stride[0]),
                                        to_int(g.stride[1]), 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
        "cudnnSetConvolution2dDescriptor");
  check(cudnnSetConvolutionMathType(made.convolution, math_type(g)), "cudnnSetConvolutionMathType");
  return made;
}

// Takes the first of cuDNN's suggestions, which come best first, that is deterministic and computes in `math`.
template <class Direction>
void choose_algorithm(ConvolutionPlan<Direction>& plan, cudnnMathType_t math, cudnnHandle_t cudnn) {
  std::array<typename Direction::Result, Direction::kCandidates> results{};
  int count = 0;
  check(candidates(Direction{}, cudnn, plan, Direction::kCandidates, &count, results.data()),
        "cudnnGetConvolutionAlgorithm_v7");
  for (int i = 0; i < count && !plan.found; ++i) {
    const auto& result = results[static_cast<std::size_t>(i)];
    const bool fits =
        result.status == CUDNN_STATUS_SUCCESS && result.determinism == CUDNN_DETERMINISTIC &&
        (math != CUDNN_FMA_MATH || result.mathType == CUDNN_FMA_MATH || result.mathType == CUDNN_DEFAULT_MATH);
    if (!fits) continue;
    // The suggestion is only valid with its own math type.
    if (math != CUDNN_FMA_MATH) {
      check(cudnnSetConvolutionMathType(plan.convolution, result.mathType), "cudnnSetConvolutionMathType");
    }
    const cudnnStatus_t status = workspace_size(cudnn, plan, result.algo, &plan.workspace);
    if (CUDNN_STATUS_CATEGORY(static_cast<int>(status)) == CUDNN_STATUS_NOT_SUPPORTED) continue;
    check(status, "cudnnGetConvolutionWorkspaceSize");
    plan.algorithm = result.algo;
    plan.found = true;
  }
}

template <class Direction>
ConvolutionPlan<Direction> make_plan(const Geometry& g, cudnnHandle_t cudnn) {
  ConvolutionPlan<Direction> plan;
  try {
    static_cast<Descriptors&>(plan) = describe(g);
    choose_algorithm(plan, math_type(g), cudnn);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported) throw;
  }
  return plan;
}

template <class Direction>
const ConvolutionPlan<Direction>& plan(const Geometry& g, CudaStream& stream) {
  return stream.plan<ConvolutionPlan<Direction>>(
      {g.x[0], g.x[1], g.x[2], g.x[3], g.w[0], g.w[1], g.w[2], g.stride[0], g.stride[1], g.pad[0], g.pad[1],
       static_cast<int>(g.dtype), static_cast<int>(g.math)},
      [&] { return make_plan<Direction>(g, stream.cudnn()); });
}

// From the stream's arena, so that in a recording the graph owns it.
Buffer allocate(std::size_t bytes, const Stream& stream) { return bytes > 0 ? stream.allocate(bytes) : Buffer(); }

// An image tensor in the stream's memory.
struct Temporary {
  Buffer buffer;
  Tensor tensor;

  Temporary(const Shape& shape, DType dtype, const Stream& stream)
      : buffer(stream.allocate(static_cast<std::size_t>(shape.count()) * size_of(dtype))),
        tensor(buffer.data(), dtype, shape, stream.device()) {}
};

}  // namespace

void run(const ops::Conv2d& op, const Stream& stream) {
  if (op.y.count() == 0) return;
  if (!pads_evenly(op.options)) {
    const Temporary padded(padded_shape(op.x.shape(), op.options), op.x.dtype(), stream);
    pad(padded.tensor, op.x, op.options.pad_before, stream);
    return cuda::run(ops::Conv2d{op.y, padded.tensor, op.w, op.b, {.stride = op.options.stride}, op.math}, stream);
  }
  CudaStream& owner = cuda_stream(stream);
  const auto& p = plan<Forward>(geometry_of(op.x.shape(), op.w.shape(), op.y, op.options, op.math), owner);
  if (p.found) {
    const Buffer workspace = allocate(p.workspace, stream);
    check(cudnnConvolutionForward(owner.cudnn(), &kOne, p.x, op.x.raw(), p.w, op.w.raw(), p.convolution, p.algorithm,
                                  workspace.data(), p.workspace, &kZero, p.y, op.y.raw()),
          "cudnnConvolutionForward");
    add_bias(op.y, op.b, stream);
  } else {
    tiled_conv2d(op.y, op.x, op.w, op.b, false, window_of(op.options), stream);
  }
}

void run(const ops::Conv2dBackward& op, const Stream& stream) {
  const std::int64_t channels = op.dz.shape()[3];
  if (op.db)
    cuda::run(ops::SumRows{op.db, op.dz.reshape({channels > 0 ? op.dz.count() / channels : 0, channels})}, stream);
  if (!op.dw && !op.dx) return;
  if (op.dz.count() == 0) {
    if (op.dw) stream.fill(op.dw.raw(), 0, op.dw.bytes());
    if (op.dx) stream.fill(op.dx.raw(), 0, op.dx.bytes());
    return;
  }
  if (!pads_evenly(op.options)) {
    const Conv2dOptions unpadded{.stride = op.options.stride};
    const Temporary padded(padded_shape(op.x_shape(), op.options), op.dz.dtype(), stream);
    if (op.dw) {
      pad(padded.tensor, op.x, op.options.pad_before, stream);
      cuda::run(ops::Conv2dBackward{.dw = op.dw, .dz = op.dz, .x = padded.tensor, .options = unpadded, .math = op.math},
                stream);
    }
    if (op.dx) {
      cuda::run(ops::Conv2dBackward{.dx = padded.tensor, .dz = op.dz, .w = op.w, .options = unpadded, .math = op.math},
                stream);
      crop(op.dx, padded.tensor, op.options.pad_before, stream);
    }
    return;
  }
  CudaStream& owner = cuda_stream(stream);
  const Geometry geometry = geometry_of(op.x_shape(), op.w_shape(), op.dz, op.options, op.math);
  if (op.dw) {
    const auto& p = plan<BackwardFilter>(geometry, owner);
    if (p.found) {
      const Buffer workspace = allocate(p.workspace, stream);
      // For 16-bit images cuDNN writes 16-bit gradients.
      const bool rounds = op.dw.dtype() != op.x.dtype();
      const Buffer rounded =
          rounds ? stream.allocate(static_cast<std::size_t>(op.dw.count()) * size_of(op.x.dtype())) : Buffer();
      const Tensor computed =
          rounds ? Tensor(rounded.data(), op.x.dtype(), op.dw.shape(), op.dw.device()) : Tensor(op.dw);
      check(cudnnConvolutionBackwardFilter(owner.cudnn(), &kOne, p.x, op.x.raw(), p.y, op.dz.raw(), p.convolution,
                                           p.algorithm, workspace.data(), p.workspace, &kZero, p.w, computed.raw()),
            "cudnnConvolutionBackwardFilter");
      if (rounds) giro::cast(op.dw, computed, stream);
    } else {
      tiled_conv2d_backward_filter(op.dw, op.dz, op.x, window_of(op.options), stream);
    }
  }
  if (op.dx) {
    const auto& p = plan<BackwardData>(geometry, owner);
    if (p.found) {
      const Buffer workspace = allocate(p.workspace, stream);
      check(cudnnConvolutionBackwardData(owner.cudnn(), &kOne, p.w, op.w.raw(), p.y, op.dz.raw(), p.convolution,
                                         p.algorithm, workspace.data(), p.workspace, &kZero, p.x, op.dx.raw()),
            "cudnnConvolutionBackwardData");
    } else {
      tiled_conv2d_backward_data(op.dx, op.dz, op.w, window_of(op.options), stream);
    }
  }
}

}  // namespace giro::cuda
