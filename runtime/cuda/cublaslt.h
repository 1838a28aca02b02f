#pragma once

#include <cublasLt.h>

#include <source_location>

#include "runtime/cuda/library.h"

namespace giro::cuda {

// cuBLASLt's functions. Its 150 MB are loaded with the first product on a GPU.
struct CublasLt : private Library {
  // Error(unsupported), naming the package that contains it, if there is no cuBLASLt.
  static const CublasLt& instance();

  decltype(&cublasLtCreate) create = find("cublasLtCreate");
  decltype(&cublasLtDestroy) destroy = find("cublasLtDestroy");
  decltype(&cublasLtGetStatusName) status_name = find("cublasLtGetStatusName");
  decltype(&cublasLtGetStatusString) status_string = find("cublasLtGetStatusString");
  decltype(&cublasLtMatmul) matmul = find("cublasLtMatmul");
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = find("cublasLtMatmulAlgoGetHeuristic");
  decltype(&cublasLtMatmulDescCreate) create_description = find("cublasLtMatmulDescCreate");
  decltype(&cublasLtMatmulDescDestroy) destroy_description = find("cublasLtMatmulDescDestroy");
  decltype(&cublasLtMatmulDescSetAttribute) set_of_description = find("cublasLtMatmulDescSetAttribute");
  decltype(&cublasLtMatmulPreferenceCreate) create_preference = find("cublasLtMatmulPreferenceCreate");
  decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference = find("cublasLtMatmulPreferenceDestroy");
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_of_preference = find("cublasLtMatmulPreferenceSetAttribute");
  decltype(&cublasLtMatrixLayoutCreate) create_layout = find("cublasLtMatrixLayoutCreate");
  decltype(&cublasLtMatrixLayoutDestroy) destroy_layout = find("cublasLtMatrixLayoutDestroy");
  decltype(&cublasLtMatrixLayoutSetAttribute) set_of_layout = find("cublasLtMatrixLayoutSetAttribute");

 private:
  CublasLt();
};

[[noreturn]] void fail(cublasStatus_t status, const char* call, std::source_location where);

// Like check() for the runtime's own calls (check.h). Error(unsupported) for a call that the library does not support.
inline void check(cublasStatus_t status, const char* call,
                  std::source_location where = std::source_location::current()) {
  if (status != CUBLAS_STATUS_SUCCESS) [[unlikely]]
    fail(status, call, where);
}

}  // namespace giro::cuda
