// Launches. nvcc's host code registers every kernel by name and by the address of its host stub, and launches it by the
// stub. The translated kernel is found by name.

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/cuda_on_cpu/engine/engine.h"
#include "tests/cuda_on_cpu/runtime/error.h"
#include "tests/cuda_on_cpu/runtime/injection.h"
#include "tests/cuda_on_cpu/runtime/launch.h"
#include "tests/cuda_on_cpu/runtime/order.h"
#include "tests/cuda_on_cpu/runtime/stream.h"

namespace cuda_on_cpu {
namespace {

using giro::simt::Dim3;
using giro::simt::Fault;
using giro::simt::Kernel;
using giro::simt::Launch;
using giro::simt::Limits;

// What cudaKernel_t points at.
struct Stub {
  std::string name;
  std::size_t dynamic_shared_limit = Limits::kSharedBytes;  // cudaFuncSetAttribute raises it
};

// Never destroyed: registration runs before main, and deregistration after the program's static objects are gone.
std::map<const void*, Stub>& stubs() {
  static auto* const stubs = new std::map<const void*, Stub>;
  return *stubs;
}

// Kernels loaded at run time, by name.
std::map<std::string, Stub>& loaded() {
  static auto* const loaded = new std::map<std::string, Stub>;
  return *loaded;
}

Stub& stub_of(const void* function) {
  const auto found = stubs().find(function);
  for (auto& [name, stub] : loaded()) {
    if (&stub == function) return stub;
  }
  if (found == stubs().end()) fail(cudaErrorInvalidDeviceFunction, "not a __global__ function");
  return found->second;
}

const Kernel& kernel_of(const Stub& stub) {
  const Kernel* kernel = giro::simt::find_kernel(stub.name);
  if (kernel == nullptr) {
    fail(cudaErrorNoKernelImageForDevice, fmt::format("{}: no translated PTX file contains it", stub.name));
  }
  return *kernel;
}

cudaError_t code_of(Fault fault) {
  switch (fault) {
    case Fault::none:
      return cudaSuccess;
    case Fault::invalid_configuration:
      return cudaErrorInvalidConfiguration;
    case Fault::illegal_address:
      return cudaErrorIllegalAddress;
    case Fault::misaligned_address:
      return cudaErrorMisalignedAddress;
    case Fault::timeout:
      return cudaErrorLaunchTimeout;
    default:
      return cudaErrorLaunchFailure;
  }
}

// Throws CudaError with one of CUDA's two codes for a bad configuration.
void reject_bad_configuration(const Kernel& kernel, const Launch& launch, std::size_t shared_limit) {
  const giro::simt::Outcome outcome = giro::simt::check_configuration(kernel, launch, shared_limit);
  if (outcome) return;
  const std::size_t shared = kernel.static_shared_bytes + launch.dynamic_shared_bytes;
  fail(shared > shared_limit ? cudaErrorInvalidValue : code_of(outcome.fault), outcome.message);
}

// Copies of the arguments, made when the launch is queued. The program may change its own afterwards.
struct Arguments {
  std::vector<std::byte> bytes;
  std::vector<void*> pointers;

  Arguments(const Kernel& kernel, void* const* arguments) : bytes(kernel.parameter_bytes) {
    for (std::size_t i = 0; i < kernel.parameters.size(); ++i) {
      const auto [offset, size] = kernel.parameters[i];
      std::memcpy(bytes.data() + offset, arguments[i], size);
      pointers.push_back(bytes.data() + offset);
    }
  }
};

void launch(Stub& stub, dim3 grid, dim3 block, void* const* arguments, std::size_t shared, cudaStream_t stream) {
  const Kernel& kernel = kernel_of(stub);
  Launch launch{{grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, shared};
  reject_bad_configuration(kernel, launch, stub.dynamic_shared_limit);
  inject(Injection::launch, cudaErrorLaunchOutOfResources, "a kernel's launch");
  const auto copied = std::make_shared<const Arguments>(kernel, arguments);
  const auto work = [&kernel, launch, copied]() mutable {
    launch.arguments = copied->pointers.data();
    launch.operation = current_operation();
    const giro::simt::Outcome outcome = giro::simt::launch(kernel, launch);
    if (!outcome) fail(code_of(outcome.fault), outcome.message);
  };
  submit(stream, kernel.name, work, cudaGraphNodeTypeKernel, false,
         fmt::format(R"(, "blocks": {}, "threads": {}, "shared": {})", launch.grid.count(), launch.block.count(),
                     kernel.static_shared_bytes + shared));
}

// <<<>>> pushes the configuration, and the stub that it calls pops it. It is per thread and never nested.
struct Configuration {
  dim3 grid, block;
  std::size_t shared = 0;
  cudaStream_t stream = nullptr;
};
thread_local std::vector<Configuration> configurations;

}  // namespace

cudaKernel_t kernel_handle(const std::string& name) {
  return reinterpret_cast<cudaKernel_t>(&loaded().try_emplace(name, Stub{name}).first->second);
}

}  // namespace cuda_on_cpu

using namespace cuda_on_cpu;

extern "C" {

void** __cudaRegisterFatBinary(void*) {
  static void* binary = nullptr;
  return &binary;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 1; }

void __cudaRegisterFunction(void**, const char* host_function, char*, const char* name, int, uint3*, uint3*, dim3*,
                            dim3*, int*) {
  const std::lock_guard lock(api_mutex());
  stubs()[host_function].name = name;
}

// Variables belong to the translated code. Calls that access them from the host are not emulated.
void __cudaRegisterVar(void**, char*, char*, const char*, int, std::size_t, int, int) {}

unsigned int __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared, CUstream_st* stream) {
  configurations.push_back({grid, block, shared, stream});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared, void* stream) {
  const Configuration top = configurations.back();
  configurations.pop_back();
  *grid = top.grid;
  *block = top.block;
  *shared = top.shared;
  *static_cast<cudaStream_t*>(stream) = top.stream;
  return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  return api([&] { *kernel = reinterpret_cast<cudaKernel_t>(&stub_of(function)); });
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, std::size_t shared,
                               cudaStream_t stream) {
  return api([&] {
    if (kernel == nullptr) fail(cudaErrorInvalidResourceHandle, "cudaLaunchKernel: no kernel");
    launch(*reinterpret_cast<Stub*>(kernel), grid, block, arguments, shared, stream);
  });
}

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments, std::size_t shared,
                             cudaStream_t stream) {
  return api([&] { launch(stub_of(function), grid, block, arguments, shared, stream); });
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function, void** arguments) {
  return api([&] {
    if (config->numAttrs > 0) fail(cudaErrorNotSupported, "cudaLaunchKernelExC: launch attributes are not emulated");
    launch(stub_of(function), config->gridDim, config->blockDim, arguments, config->dynamicSmemBytes, config->stream);
  });
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  return api([&] {
    const Stub& stub = stub_of(function);
    const Kernel& kernel = kernel_of(stub);
    *attributes = {};
    attributes->sharedSizeBytes = kernel.static_shared_bytes;
    attributes->maxThreadsPerBlock = static_cast<int>(kernel.max_threads);
    attributes->numRegs = 32;
    attributes->ptxVersion = attributes->binaryVersion = 80;
    attributes->maxDynamicSharedSizeBytes = static_cast<int>(stub.dynamic_shared_limit - kernel.static_shared_bytes);
  });
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  return api([&] {
    Stub& stub = stub_of(function);
    const std::size_t shared = kernel_of(stub).static_shared_bytes + static_cast<std::size_t>(value);
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) {
      fail(cudaErrorNotSupported, "cudaFuncSetAttribute: only the maximum of dynamic shared memory is emulated");
    }
    if (value < 0 || shared > Limits::kSharedBytesOptIn) {
      fail(cudaErrorInvalidValue, fmt::format("cudaFuncSetAttribute: {} bytes of shared memory, a block has {} at most",
                                              shared, Limits::kSharedBytesOptIn));
    }
    stub.dynamic_shared_limit = std::max(shared, Limits::kSharedBytes);
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function, int threads,
                                                          std::size_t shared) {
  return api([&] {
    const Kernel& kernel = kernel_of(stub_of(function));
    const std::size_t used = kernel.static_shared_bytes + shared;
    const auto by_memory = used > 0 ? static_cast<int>(Limits::kSharedBytesOptIn / used) : 32;
    *blocks = threads > 0 ? std::min({32, 2048 / threads, by_memory}) : 0;
  });
}
}
