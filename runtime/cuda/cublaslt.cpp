#include "runtime/cuda/cublaslt.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <giro/runtime/error.h>

namespace giro::cuda {

const CublasLt& CublasLt::instance() {
  static const CublasLt functions;
  return functions;
}

CublasLt::CublasLt()
    : Library({.name = "cuBLASLt, which computes products on GPUs,",
               .files = {"libcublasLt.so.13"},
               .package = "it comes with the CUDA toolkit (libcublas) and with PyPI's nvidia-cublas",
               .newest = "cublasLtGetStatusName"}) {}

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

}  // namespace giro::cuda
