#include "runtime/cuda/cublaslt.h"

#include "runtime/cuda/library.h"

namespace giro::cuda {

const CublasLt& CublasLt::instance() {
  static const CublasLt functions;
  return functions;
}

CublasLt::CublasLt() {
  const Library library({.name = "cuBLASLt, which computes products on GPUs,",
                         .files = {"libcublasLt.so.13"},
                         .package = "it comes with the CUDA toolkit (libcublas) and with PyPI's nvidia-cublas",
                         .newest = "cublasLtGetStatusName"});
  library.find(create, "cublasLtCreate");
  library.find(destroy, "cublasLtDestroy");
  library.find(status_name, "cublasLtGetStatusName");
  library.find(status_string, "cublasLtGetStatusString");
  library.find(matmul, "cublasLtMatmul");
  library.find(heuristic, "cublasLtMatmulAlgoGetHeuristic");
  library.find(create_description, "cublasLtMatmulDescCreate");
  library.find(destroy_description, "cublasLtMatmulDescDestroy");
  library.find(set_of_description, "cublasLtMatmulDescSetAttribute");
  library.find(create_preference, "cublasLtMatmulPreferenceCreate");
  library.find(destroy_preference, "cublasLtMatmulPreferenceDestroy");
  library.find(set_of_preference, "cublasLtMatmulPreferenceSetAttribute");
  library.find(create_layout, "cublasLtMatrixLayoutCreate");
  library.find(destroy_layout, "cublasLtMatrixLayoutDestroy");
  library.find(set_of_layout, "cublasLtMatrixLayoutSetAttribute");
}

}  // namespace giro::cuda
