#pragma once

#include <cublasLt.h>
#include <cudnn.h>

#include <source_location>

namespace giro::cuda {

[[noreturn]] void fail(cublasStatus_t status, const char* call, std::source_location where);
[[noreturn]] void fail(cudnnStatus_t status, const char* call, std::source_location where);

// Like check() for the runtime's own calls (check.h). Error(unsupported) for a call that a library does not support.
inline void check(cublasStatus_t status, const char* call,
                  std::source_location where = std::source_location::current()) {
  if (status != CUBLAS_STATUS_SUCCESS) [[unlikely]]
    fail(status, call, where);
}
inline void check(cudnnStatus_t status, const char* call,
                  std::source_location where = std::source_location::current()) {
  if (status != CUDNN_STATUS_SUCCESS) [[unlikely]]
    fail(status, call, where);
}

}  // namespace giro::cuda
