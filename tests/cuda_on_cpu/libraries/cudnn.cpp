// cuDNN's handle, version and error texts.

#include "tests/cuda_on_cpu/libraries/cudnn.h"

namespace cuda_on_cpu::dnn {
namespace {

cudnnStatus_t valid(bool is) { return is ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM; }

}  // namespace
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

// cudnn-frontend references these for filters of 8-bit integers.
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t*) { return CUDNN_STATUS_NOT_SUPPORTED; }
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t) { return CUDNN_STATUS_NOT_SUPPORTED; }
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
