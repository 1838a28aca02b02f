#include "runtime/internal/profiling.h"

#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>

#include "runtime/cuda/check.h"

namespace giro::cuda {

void set_profiling(bool on) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
    (void)cudaGetLastError();  // it must not surface at the next launch
    return;
  }
  if (on) {
    check(cudaProfilerStart(), "cudaProfilerStart");
  } else {
    check(cudaProfilerStop(), "cudaProfilerStop");
  }
}

}  // namespace giro::cuda
