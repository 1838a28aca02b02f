#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <memory>

#include <giro/runtime/buffer.h>

#include "runtime/cuda/handle.h"

namespace giro::cuda {

// The CUDA objects of a stream.
struct StreamHandles {
  Handle<cudaStream_t, cudaStreamDestroy> stream;
  Handle<cudaGraph_t, cudaGraphDestroy> captured;      // the recording so far
  Handle<cublasLtHandle_t, cublasLtDestroy> cublaslt;  // null until used, like cudnn
  Handle<cudnnHandle_t, cudnnDestroy> cudnn;
  Buffer arrivals;  // counters, CudaStream::arrivals

  std::unique_ptr<StreamHandles> next;  // in the list of handles to be closed
};

}  // namespace giro::cuda
