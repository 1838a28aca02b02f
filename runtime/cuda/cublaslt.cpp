#include "runtime/cuda/cublaslt.h"

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

}  // namespace giro::cuda
