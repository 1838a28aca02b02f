#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <memory>

#include <giro/runtime/buffer.h>

#include "runtime/cuda/handle.h"

namespace giro::cuda {

// What CUDA has opened for a stream.
struct StreamHandles {
  Handle<cudaStream_t, cudaStreamDestroy> stream;
  Handle<cudaGraph_t, cudaGraphDestroy> captured;      // what the recording has come to so far
  Handle<cublasLtHandle_t, cublasLtDestroy> cublaslt;  // as the next, null until it is used
  Handle<cudnnHandle_t, cudnnDestroy> cudnn;
  Buffer arrivals;  // counters, CudaStream::arrivals

  std::unique_ptr<StreamHandles> next;  // that waits to be closed as well
};

}  // namespace giro::cuda
