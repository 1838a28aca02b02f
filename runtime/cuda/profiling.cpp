#include "runtime/backend.h"

#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>
#include <nvtx3/nvToolsExt.h>

#include "runtime/cuda/check.h"

namespace giro::cuda {

bool set_profiling(bool on) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
    (void)cudaGetLastError();  // it must not surface at the next launch
    return false;
  }
  if (on) {
    check(cudaProfilerStart(), "cudaProfilerStart");
  } else {
    check(cudaProfilerStop(), "cudaProfilerStop");
  }
  return true;
}

void push_range(const char* name) noexcept { (void)nvtxRangePushA(name); }
void pop_range() noexcept { (void)nvtxRangePop(); }

}  // namespace giro::cuda
