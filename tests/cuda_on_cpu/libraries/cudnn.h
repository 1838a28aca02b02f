#pragma once

// cuDNN's handle, and its entry points.

#include <cudnn.h>

#include "tests/cuda_on_cpu/libraries/objects.h"
#include "tests/cuda_on_cpu/libraries/work.h"

namespace cuda_on_cpu::dnn {

inline constexpr const char* kHandle = "cuDNN handle";

struct Library {
  cudaStream_t stream = nullptr;
  LibraryMemory memory = std::make_shared<char>();
};

// The body of the entry point `call`.
template <class Body>
cudnnStatus_t cudnn(Body&& body, const char* call = __builtin_FUNCTION()) {
  return library_call(CUDNN_STATUS_EXECUTION_FAILED, std::forward<Body>(body), call);
}

// Queues work on the handle's stream.
template <class Work>
cudnnStatus_t submit_to(const Library& library, const char* name, Work&& work) {
  submit_with(library.memory, library.stream, name, std::forward<Work>(work));
  return CUDNN_STATUS_SUCCESS;
}

struct Descriptor;

// Queues a finalized plan's work with the pointers of a finalized variant pack.
cudnnStatus_t execute(const Library& library, const Descriptor& plan, const Descriptor& pack);

}  // namespace cuda_on_cpu::dnn
