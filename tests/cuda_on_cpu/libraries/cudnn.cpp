// cuDNN's handle and descriptors. Descriptors accept and refuse what cuDNN 9.19 itself does. The real one needs no
// device for that, and the ctest cudnn_real_codes asks it the same questions. Descriptors hold more than is emulated;
// the calls that compute decline the rest.

#include "tests/cuda_on_cpu/libraries/cudnn.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <limits>

namespace cuda_on_cpu::dnn {
namespace {

cudnnStatus_t valid(bool is) { return is ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM; }

bool holds_vectors(cudnnDataType_t type) {
  return type == CUDNN_DATA_INT8x4 || type == CUDNN_DATA_UINT8x4 || type == CUDNN_DATA_INT8x32;
}

cudnnStatus_t set(Tensor* tensor, cudnnTensorFormat_t format, cudnnDataType_t type, int n, int c, int h, int w) {
  const bool known = type >= CUDNN_DATA_FLOAT && type <= CUDNN_DATA_BFLOAT16;
  const bool formatted = format == CUDNN_TENSOR_NCHW_VECT_C
                             ? holds_vectors(type)
                             : format == CUDNN_TENSOR_NHWC || format == CUDNN_TENSOR_NCHW;
  if (tensor == nullptr || n <= 0 || c <= 0 || h <= 0 || w <= 0 || !known || !formatted) return CUDNN_STATUS_BAD_PARAM;
  *tensor = {true,
             format == CUDNN_TENSOR_NHWC,
             static_cast<std::size_t>(n),
             static_cast<std::size_t>(c),
             static_cast<std::size_t>(h),
             static_cast<std::size_t>(w),
             type};
  return CUDNN_STATUS_SUCCESS;
}

template <class F>
void for_each_element(const Tensor& tensor, F&& f) {
  std::size_t position = 0;
  for (std::size_t i = 0; i < tensor.n; ++i) {
    for (std::size_t y = 0; y < tensor.h; ++y) {
      for (std::size_t x = 0; x < tensor.w; ++x) {
        for (std::size_t c = 0; c < tensor.c; ++c) f(position++, tensor.index(i, y, x, c));
      }
    }
  }
}

double load_element(const Tensor& tensor, const void* data, std::size_t index) {
  switch (tensor.type) {
    case CUDNN_DATA_HALF:
      return __half2float(static_cast<const __half*>(data)[index]);
    case CUDNN_DATA_BFLOAT16:
      return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[index]);
    default:
      return static_cast<const float*>(data)[index];
  }
}

void store_element(const Tensor& tensor, void* data, std::size_t index, double value) {
  switch (tensor.type) {
    case CUDNN_DATA_HALF:
      static_cast<__half*>(data)[index] = __double2half(value);
      break;
    case CUDNN_DATA_BFLOAT16:
      static_cast<__nv_bfloat16*>(data)[index] = __double2bfloat16(value);
      break;
    default:
      static_cast<float*>(data)[index] = static_cast<float>(value);
  }
}

}  // namespace

std::vector<double> load(const Tensor& tensor, const void* data) {
  std::vector<double> values(tensor.count());
  for_each_element(
      tensor, [&](std::size_t position, std::size_t index) { values[position] = load_element(tensor, data, index); });
  return values;
}

void store(const Tensor& tensor, void* data, const std::vector<double>& values, float alpha, float beta) {
  for_each_element(tensor, [&](std::size_t position, std::size_t index) {
    const double before = beta != 0 ? beta * load_element(tensor, data, index) : 0;
    store_element(tensor, data, index, alpha * values[position] + before);
  });
}

}  // namespace cuda_on_cpu::dnn

using namespace cuda_on_cpu;
using namespace cuda_on_cpu::dnn;

extern "C" {

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  return library_open(CUDNN_STATUS_EXECUTION_FAILED, [&] { return valid(create_object(handle, kHandle, Library{})); });
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  return library_close(CUDNN_STATUS_EXECUTION_FAILED, [&] { return valid(destroy_object<Library>(handle, kHandle)); });
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  return cudnn([&] {
    auto* library = object<Library>(handle, kHandle);
    if (library != nullptr) library->stream = stream;
    return valid(library != nullptr);
  });
}

cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream) {
  return cudnn([&] {
    const auto* library = object<Library>(handle, kHandle);
    if (library == nullptr || stream == nullptr) return CUDNN_STATUS_BAD_PARAM;
    *stream = library->stream;
    return CUDNN_STATUS_SUCCESS;
  });
}

std::size_t cudnnGetVersion() { return CUDNN_VERSION; }
std::size_t cudnnGetCudartVersion() { return CUDART_VERSION; }

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* tensor) {
  return cudnn([&] { return valid(create_object(tensor, kTensor, Tensor{})); });
}
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t tensor) {
  return valid(destroy_descriptor<Tensor>(tensor, kTensor));
}
cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t tensor, cudnnTensorFormat_t format,
                                         cudnnDataType_t type, int n, int c, int h, int w) {
  return cudnn([&] {
    Tensor made;
    if (const cudnnStatus_t status = set(&made, format, type, n, c, h, w); status != CUDNN_STATUS_SUCCESS)
      return status;
    if (made.count() > static_cast<std::size_t>(std::numeric_limits<int>::max())) return CUDNN_STATUS_NOT_SUPPORTED;
    auto* const found = object<Tensor>(tensor, kTensor);
    if (found != nullptr) *found = made;
    return valid(found != nullptr);
  });
}

cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* filter) {
  return cudnn([&] { return valid(create_object(filter, kFilter, Tensor{})); });
}
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t filter) {
  return valid(destroy_descriptor<Tensor>(filter, kFilter));
}
cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t filter, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int k, int c, int h, int w) {
  return cudnn([&] {
    if (type == CUDNN_DATA_INT32) return CUDNN_STATUS_BAD_PARAM;
    return set(object<Tensor>(filter, kFilter), format, type, k, c, h, w);
  });
}

cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* convolution) {
  return cudnn([&] { return valid(create_object(convolution, kConvolution, Convolution{})); });
}
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t convolution) {
  return valid(destroy_descriptor<Convolution>(convolution, kConvolution));
}
cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t handle, int pad_h, int pad_w, int stride_h,
                                              int stride_w, int dilation_h, int dilation_w, cudnnConvolutionMode_t mode,
                                              cudnnDataType_t compute) {
  return cudnn([&] {
    auto* convolution = object<Convolution>(handle, kConvolution);
    const bool sensible = pad_h >= 0 && pad_w >= 0 && stride_h > 0 && stride_w > 0 && dilation_h > 0 && dilation_w > 0;
    const bool known = mode == CUDNN_CROSS_CORRELATION || mode == CUDNN_CONVOLUTION;
    const bool sums = compute == CUDNN_DATA_FLOAT || compute == CUDNN_DATA_DOUBLE || compute == CUDNN_DATA_HALF ||
                      compute == CUDNN_DATA_INT32;
    if (convolution == nullptr || !sensible || !known || !sums) return CUDNN_STATUS_BAD_PARAM;
    convolution->is_set = true;
    convolution->is_emulated = mode == CUDNN_CROSS_CORRELATION && compute == CUDNN_DATA_FLOAT;
    convolution->y = {pad_h, stride_h, dilation_h};
    convolution->x = {pad_w, stride_w, dilation_w};
    return CUDNN_STATUS_SUCCESS;
  });
}
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t handle, cudnnMathType_t math) {
  return cudnn([&] {
    auto* convolution = object<Convolution>(handle, kConvolution);
    if (convolution == nullptr || math < CUDNN_DEFAULT_MATH || math > CUDNN_FMA_MATH) return CUDNN_STATUS_BAD_PARAM;
    convolution->math = math;
    return CUDNN_STATUS_SUCCESS;
  });
}

cudnnStatus_t cudnnCreatePoolingDescriptor(cudnnPoolingDescriptor_t* pooling) {
  return cudnn([&] { return valid(create_object(pooling, kPooling, Pooling{})); });
}
cudnnStatus_t cudnnDestroyPoolingDescriptor(cudnnPoolingDescriptor_t pooling) {
  return valid(destroy_descriptor<Pooling>(pooling, kPooling));
}
cudnnStatus_t cudnnSetPooling2dDescriptor(cudnnPoolingDescriptor_t handle, cudnnPoolingMode_t mode,
                                          cudnnNanPropagation_t nan, int window_h, int window_w, int pad_h, int pad_w,
                                          int stride_h, int stride_w) {
  return cudnn([&] {
    auto* pooling = object<Pooling>(handle, kPooling);
    const bool sensible = window_h > 0 && window_w > 0 && stride_h > 0 && stride_w > 0;
    const bool known = mode >= CUDNN_POOLING_MAX && mode <= CUDNN_POOLING_MAX_DETERMINISTIC &&
                       (nan == CUDNN_PROPAGATE_NAN || nan == CUDNN_NOT_PROPAGATE_NAN);
    if (pooling == nullptr || !sensible || !known) return CUDNN_STATUS_BAD_PARAM;
    *pooling = {true,
                mode,
                nan == CUDNN_PROPAGATE_NAN,
                static_cast<std::size_t>(window_h),
                static_cast<std::size_t>(window_w),
                {pad_h, stride_h, 1},
                {pad_w, stride_w, 1}};
    return CUDNN_STATUS_SUCCESS;
  });
}

// cudnn-frontend names these for filters of 8-bit integers.
cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t, cudnnDataType_t, cudnnTensorFormat_t, int,
                                         const int*) {
  return CUDNN_STATUS_NOT_SUPPORTED;
}
cudnnStatus_t cudnnReorderFilterAndBias(cudnnHandle_t, cudnnFilterDescriptor_t, cudnnReorderType_t, const void*, void*,
                                        int, const void*, void*) {
  return CUDNN_STATUS_NOT_SUPPORTED;
}

const char* cudnnGetErrorString(cudnnStatus_t status) {
  switch (status) {
#define CUDA_ON_CPU_NAME(name) \
  case name:                   \
    return #name
    CUDA_ON_CPU_NAME(CUDNN_STATUS_SUCCESS);
    CUDA_ON_CPU_NAME(CUDNN_STATUS_NOT_INITIALIZED);
    CUDA_ON_CPU_NAME(CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH);
    CUDA_ON_CPU_NAME(CUDNN_STATUS_BAD_PARAM);
    CUDA_ON_CPU_NAME(CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    CUDA_ON_CPU_NAME(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER);
    CUDA_ON_CPU_NAME(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
    CUDA_ON_CPU_NAME(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
    CUDA_ON_CPU_NAME(CUDNN_STATUS_NOT_SUPPORTED);
    CUDA_ON_CPU_NAME(CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED);
    CUDA_ON_CPU_NAME(CUDNN_STATUS_EXECUTION_FAILED);
#undef CUDA_ON_CPU_NAME
    default:
      return "CUDNN_UNKNOWN_STATUS";
  }
}
}
