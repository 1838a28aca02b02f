#pragma once

// What an operation graph computes: a two-dimensional convolution in one of its three directions. A bias and ReLU may
// follow the forward direction. An image has the channels of one filter for each group (cuDNN's reference of
// CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR).

#include <cstddef>
#include <optional>
#include <vector>

#include "tests/cuda_on_cpu/libraries/cudnn_descriptor.h"

namespace cuda_on_cpu::dnn::graph {

// Images (N, C, H, W) of f32, f16 or bf16, or filters (O, I, KH, KW).
struct Tensor {
  std::int64_t uid = 0, alignment = 1;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  std::size_t n = 0, c = 0, h = 0, w = 0;
  std::size_t n_stride = 0, c_stride = 0, h_stride = 0, w_stride = 0;

  std::size_t count() const { return n * c * h * w; }
  std::size_t bytes() const { return count() * (type == CUDNN_DATA_FLOAT ? 4 : 2); }
};

// One axis of the sliding window.
struct Axis {
  std::int64_t pad, stride, dilation;

  // The index on the axis of the window's `tap`. In the padding it is negative or too large.
  std::int64_t at(std::size_t position, std::size_t tap) const {
    return static_cast<std::int64_t>(position) * stride - pad + static_cast<std::int64_t>(tap) * dilation;
  }
};

struct Relu {
  double upper;
  bool propagates_nan;
};

struct Problem {
  cudnnBackendDescriptorType_t direction;
  Tensor x, w, y;  // y: the convolution's result, before bias and ReLU
  Axis rows, columns;
  std::optional<Tensor> bias;
  std::optional<Relu> relu;
  Tensor out;  // the result: x, w or y, or that of the last pointwise operation

  std::size_t groups() const { return x.c / w.c; }
};

// The attributes that hold a convolution's parts.
struct Names {
  cudnnBackendDescriptorType_t direction;
  cudnnBackendAttributeName_t x, w, y, out, convolution, alpha, beta;
};
// Returns null for an operation that is not a convolution.
const Names* convolution_names(cudnnBackendDescriptorType_t kind);

// Returns nothing, and keeps the reason, if cuDNN 9.19 has no plan (checked by the ctest cudnn_real_codes) or the graph
// is not emulated.
std::optional<Problem> read(const Descriptor& operation_graph);

}  // namespace cuda_on_cpu::dnn::graph
