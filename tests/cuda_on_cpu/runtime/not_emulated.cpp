// Entry points that cudnn-frontend references for kernels that it or cuDNN compiles at run time. No emulated engine has
// such kernels.

#include <cuda_runtime_api.h>

#include <string>

#include "tests/cuda_on_cpu/runtime/error.h"

namespace cuda_on_cpu {
namespace {

cudaError_t not_emulated(const char* call = __builtin_FUNCTION()) {
  return api([&] { fail(cudaErrorNotSupported, std::string(call) + " is not emulated"); }, call);
}

}  // namespace
}  // namespace cuda_on_cpu

using cuda_on_cpu::not_emulated;

extern "C" {

cudaError_t cudaUserObjectCreate(cudaUserObject_t*, void*, cudaHostFn_t, unsigned int, unsigned int) {
  return not_emulated();
}
cudaError_t cudaUserObjectRelease(cudaUserObject_t, unsigned int) { return not_emulated(); }
cudaError_t cudaGraphRetainUserObject(cudaGraph_t, cudaUserObject_t, unsigned int, unsigned int) {
  return not_emulated();
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode*) { return not_emulated(); }
// There is no driver with entry points. As the runtime's documentation says, the call succeeds and the result reports
// this.
cudaError_t cudaGetDriverEntryPointByVersion(const char*, void** function, unsigned int, unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  *function = nullptr;
  *result = cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}
cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t, cudaFuncAttribute, int, int) { return not_emulated(); }
cudaError_t cudaLibraryUnload(cudaLibrary_t) { return not_emulated(); }
}
