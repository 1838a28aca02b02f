#pragma once

// The contents of cuDNN's opaque objects: images of f32, bf16 or f16 in four dimensions, two-dimensional convolutions
// without groups, and pooling.

#include <cudnn.h>

#include <cstddef>
#include <vector>

#include "tests/cuda_on_cpu/libraries/objects.h"
#include "tests/cuda_on_cpu/libraries/work.h"

namespace cuda_on_cpu::dnn {

inline constexpr const char* kHandle = "cuDNN handle";
inline constexpr const char* kTensor = "cuDNN tensor descriptor";
inline constexpr const char* kFilter = "cuDNN filter descriptor";
inline constexpr const char* kConvolution = "cuDNN convolution descriptor";
inline constexpr const char* kPooling = "cuDNN pooling descriptor";

struct Library {
  cudaStream_t stream = nullptr;
  LibraryMemory memory = std::make_shared<char>();
};

// A batch of images (N, H, W, C), or filters (O, KH, KW, I) with n for O and c for I.
struct Tensor {
  bool is_set = false, channels_last = true;
  std::size_t n = 0, c = 0, h = 0, w = 0;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;

  std::size_t count() const { return n * c * h * w; }
  std::size_t bytes() const { return count() * (type == CUDNN_DATA_FLOAT ? 4 : 2); }
  bool is_emulated() const {
    return type == CUDNN_DATA_FLOAT || type == CUDNN_DATA_HALF || type == CUDNN_DATA_BFLOAT16;
  }
  // Where element (i, y, x, channel) lies in memory.
  std::size_t index(std::size_t i, std::size_t y, std::size_t x, std::size_t channel) const {
    return channels_last ? ((i * h + y) * w + x) * c + channel : ((i * c + channel) * h + y) * w + x;
  }
  bool operator==(const Tensor&) const = default;
};

// The tensor's values in the order (n, h, w, c), whatever order the tensor has.
std::vector<double> load(const Tensor& tensor, const void* data);

// data = alpha values + beta data, rounded once.
void store(const Tensor& tensor, void* data, const std::vector<double>& values, float alpha, float beta);

// One axis of a sliding window.
struct Axis {
  int pad = 0, stride = 1, dilation = 1;

  // How many positions a window has on an axis; 0 if it does not fit.
  long positions(std::size_t axis, std::size_t window) const {
    const long reach = static_cast<long>(dilation) * (static_cast<long>(window) - 1) + 1;
    const long room = static_cast<long>(axis) + 2L * pad - reach;
    return room < 0 ? 0 : room / stride + 1;
  }
  // Where the window's `tap` lies on the axis. In the padding it is negative or too large.
  long at(std::size_t position, std::size_t tap) const {
    return static_cast<long>(position) * stride - pad + static_cast<long>(tap) * dilation;
  }
};

struct Convolution {
  bool is_set = false, is_emulated = true;
  Axis y, x;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};

struct Pooling {
  bool is_set = false;
  cudnnPoolingMode_t mode = CUDNN_POOLING_MAX;
  bool propagates_nan = true;
  std::size_t window_y = 0, window_x = 0;
  Axis y, x;
};

// For calls that compute with a handle, cuDNN's reference names the conditions and the categories of codes: BAD_PARAM
// if something is missing or shapes do not fit, NOT_SUPPORTED if a combination has no algorithm. The emulation returns
// only these two, and NOT_SUPPORTED for what it does not compute itself.

// The body of the entry point `call`.
template <class Body>
cudnnStatus_t cudnn(Body&& body, const char* call = __builtin_FUNCTION()) {
  return library_call(CUDNN_STATUS_EXECUTION_FAILED, std::forward<Body>(body), call);
}

// Queues work on the handle's stream.
template <class Work>
cudnnStatus_t submit_to(const Library& library, const char* name, Work&& work) {
  submit_with(library.memory, library.stream, name, std::forward<Work>(work));
  return CUDNN_STATUS_SUCCESS;
}

struct Descriptor;

// Queues a finalized plan's work with the pointers of a finalized variant pack.
cudnnStatus_t execute(const Library& library, const Descriptor& plan, const Descriptor& pack);

inline float scalar(const void* host) { return *static_cast<const float*>(host); }

}  // namespace cuda_on_cpu::dnn
