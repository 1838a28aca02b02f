// What cuDNN's engines ask of the CUDA driver while they build a plan: here any kernel loads. The other functions,
// which fail as those of the toolkit's stub do, are generated (tests/CMakeLists.txt).

#include <cuda.h>

#include <cstddef>

namespace {

// What every handle points to.
char object;

template <class Handle>
CUresult give(Handle* handle) {
  if (handle != nullptr) *handle = reinterpret_cast<Handle>(&object);
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult cuLibraryLoadData(CUlibrary* library, const void*, CUjit_option*, void**, unsigned, CUlibraryOption*, void**,
                           unsigned) {
  return give(library);
}
CUresult cuLibraryUnload(CUlibrary) { return CUDA_SUCCESS; }
CUresult cuLibraryGetModule(CUmodule* module, CUlibrary) { return give(module); }
CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary, const char*) { return give(kernel); }
CUresult cuLibraryGetKernelCount(unsigned* count, CUlibrary) {
  *count = 1;
  return CUDA_SUCCESS;
}
CUresult cuLibraryEnumerateKernels(CUkernel* kernels, unsigned count, CUlibrary) {
  for (unsigned i = 0; i < count; ++i) give(kernels + i);
  return CUDA_SUCCESS;
}
CUresult cuLibraryGetGlobal(CUdeviceptr* address, std::size_t* bytes, CUlibrary, const char*) {
  if (bytes != nullptr) *bytes = sizeof(object);
  return give(address);
}
CUresult cuKernelGetFunction(CUfunction* function, CUkernel) { return give(function); }
CUresult cuKernelSetAttribute(CUfunction_attribute, int, CUkernel, CUdevice) { return CUDA_SUCCESS; }
CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) { return CUDA_SUCCESS; }
CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction) {
  *value = attribute == CU_FUNC_ATTRIBUTE_NUM_REGS ? 64 : 0;
  return CUDA_SUCCESS;
}
CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel, CUdevice) {
  return cuFuncGetAttribute(value, attribute, nullptr);
}
CUresult cuModuleLoadData(CUmodule* module, const void*) { return give(module); }
CUresult cuModuleLoadDataEx(CUmodule* module, const void*, unsigned, CUjit_option*, void**) { return give(module); }
CUresult cuModuleUnload(CUmodule) { return CUDA_SUCCESS; }
CUresult cuModuleGetFunction(CUfunction* function, CUmodule, const char*) { return give(function); }
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction, int, std::size_t) {
  *blocks = 2;
  return CUDA_SUCCESS;
}
CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction, const CUlaunchConfig*) {
  *clusters = 66;
  return CUDA_SUCCESS;
}
}
