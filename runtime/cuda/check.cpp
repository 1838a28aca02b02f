#include "runtime/cuda/check.h"

#include <fmt/format.h>

#include <giro/runtime/error.h>

#include "runtime/cuda/check_libraries.h"
#include "runtime/cuda/cublaslt.h"

namespace giro::cuda {

void fail(cudaError_t status, const char* call, std::source_location where) {
  (void)cudaGetLastError();
  const ErrorCode code = status == cudaErrorMemoryAllocation ? ErrorCode::out_of_memory : ErrorCode::device;
  throw Error(code, fmt::format("CUDA: {}: {} ({})", call, cudaGetErrorName(status), cudaGetErrorString(status)),
              where);
}

void fail(cublasStatus_t status, const char* call, std::source_location where) {
  const CublasLt& library = CublasLt::instance();
  (void)cudaGetLastError();
  const ErrorCode code = status == CUBLAS_STATUS_ALLOC_FAILED    ? ErrorCode::out_of_memory
                         : status == CUBLAS_STATUS_NOT_SUPPORTED ? ErrorCode::unsupported
                                                                 : ErrorCode::device;
  throw Error(code,
              fmt::format("cuBLASLt: {}: {} ({})", call, library.status_name(status), library.status_string(status)),
              where);
}

void fail(cudnnStatus_t status, const char* call, std::source_location where) {
  (void)cudaGetLastError();
  const bool memory = status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
                      status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
  const bool declined = CUDNN_STATUS_CATEGORY(static_cast<int>(status)) == CUDNN_STATUS_NOT_SUPPORTED;
  const ErrorCode code = memory ? ErrorCode::out_of_memory : declined ? ErrorCode::unsupported : ErrorCode::device;
  throw Error(code, fmt::format("cuDNN: {}: {}", call, cudnnGetErrorString(status)), where);
}

}  // namespace giro::cuda
