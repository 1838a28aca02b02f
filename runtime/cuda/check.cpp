#include "runtime/cuda/check.h"

#include <fmt/format.h>

#include <giro/runtime/error.h>

namespace giro::cuda {

void fail(cudaError_t status, const char* call, std::source_location where) {
  (void)cudaGetLastError();
  const ErrorCode code = status == cudaErrorMemoryAllocation ? ErrorCode::out_of_memory : ErrorCode::device;
  throw Error(code, fmt::format("CUDA: {}: {} ({})", call, cudaGetErrorName(status), cudaGetErrorString(status)),
              where);
}

}  // namespace giro::cuda
