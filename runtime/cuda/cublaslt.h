#pragma once

#include <cublasLt.h>

namespace giro::cuda {

// cuBLASLt's functions. Its 150 MB are loaded with the first product on a GPU.
struct CublasLt {
  // Error(unsupported), naming the package that contains it, if there is no cuBLASLt.
  static const CublasLt& instance();

  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtGetStatusName) status_name;
  decltype(&cublasLtGetStatusString) status_string;
  decltype(&cublasLtMatmul) matmul;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
  decltype(&cublasLtMatmulDescCreate) create_description;
  decltype(&cublasLtMatmulDescDestroy) destroy_description;
  decltype(&cublasLtMatmulDescSetAttribute) set_of_description;
  decltype(&cublasLtMatmulPreferenceCreate) create_preference;
  decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_of_preference;
  decltype(&cublasLtMatrixLayoutCreate) create_layout;
  decltype(&cublasLtMatrixLayoutDestroy) destroy_layout;
  decltype(&cublasLtMatrixLayoutSetAttribute) set_of_layout;

 private:
  CublasLt();
};

}  // namespace giro::cuda
