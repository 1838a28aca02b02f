#pragma once

#include <cudnn.h>

#include <cstdint>
#include <limits>
#include <string>

#include <giro/runtime/dtype.h>
#include <giro/runtime/error.h>
#include <giro/runtime/shape.h>

#include "runtime/cuda/check_libraries.h"
#include "runtime/cuda/handle.h"

namespace giro::cuda {

using TensorDescriptor = Handle<cudnnTensorDescriptor_t, cudnnDestroyTensorDescriptor>;

// cuDNN takes sizes as int.
inline int to_int(std::int64_t value) {
  if (value < 0 || value > std::numeric_limits<int>::max()) {
    throw Error(ErrorCode::unsupported, "cuDNN takes sizes below 2^31, found " + std::to_string(value));
  }
  return static_cast<int>(value);
}

// cuDNN's name for f32, bf16 and f16.
inline cudnnDataType_t data_type(DType dtype) {
  return dtype == DType::bf16 ? CUDNN_DATA_BFLOAT16 : dtype == DType::f16 ? CUDNN_DATA_HALF : CUDNN_DATA_FLOAT;
}

// The descriptor of an image batch (N, H, W, C).
inline TensorDescriptor describe_images(const Shape& shape, DType dtype) {
  TensorDescriptor made;
  check(cudnnCreateTensorDescriptor(made.out()), "cudnnCreateTensorDescriptor");
  check(cudnnSetTensor4dDescriptor(made, CUDNN_TENSOR_NHWC, data_type(dtype), to_int(shape[0]), to_int(shape[3]),
                                   to_int(shape[1]), to_int(shape[2])),
        "cudnnSetTensor4dDescriptor");
  return made;
}

// alpha and beta of every call: the result replaces what was there.
inline constexpr float kOne = 1.0f, kZero = 0.0f;

}  // namespace giro::cuda
