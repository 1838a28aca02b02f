// The only device. It has the limits of compute capability 8.0 and is called "emulated".

#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <map>

#include <unistd.h>

#include "tests/cuda_on_cpu/engine/engine.h"
#include "tests/cuda_on_cpu/runtime/error.h"
#include "tests/cuda_on_cpu/runtime/memory.h"

namespace cuda_on_cpu {
namespace {

using giro::simt::Limits;

constexpr int kMultiprocessors = 4;
constexpr int kThreadsPerMultiprocessor = 2048;
constexpr int kBlocksPerMultiprocessor = 32;
constexpr int kRegisters = 65536;

void expect_device(int device, const char* call) {
  if (device != 0) fail(cudaErrorInvalidDevice, fmt::format("{}: no device {}, there is only 0", call, device));
}

cudaDeviceProp properties() {
  cudaDeviceProp p{};
  std::strcpy(p.name, "emulated");
  // Each process has its own GPU, unless this variable names another.
  const char* const uuid = std::getenv("GIRO_CUDA_ON_CPU_UUID");
  const int gpu = uuid != nullptr ? std::atoi(uuid) : getpid();
  std::memcpy(p.uuid.bytes, &gpu, sizeof gpu);
  p.major = 9;  // like an H200, so that NVRTC compiles generated kernels for it
  p.minor = 0;
  p.totalGlobalMem = kDeviceBytes;
  p.sharedMemPerBlock = Limits::kSharedBytes;
  p.sharedMemPerBlockOptin = Limits::kSharedBytesOptIn;
  p.sharedMemPerMultiprocessor = Limits::kSharedBytesOptIn + 1024;
  p.reservedSharedMemPerBlock = 1024;
  p.totalConstMem = 64 << 10;
  p.regsPerBlock = p.regsPerMultiprocessor = kRegisters;
  p.warpSize = Limits::kWarp;
  p.maxThreadsPerBlock = p.maxThreadsDim[0] = p.maxThreadsDim[1] = Limits::kThreads;
  p.maxThreadsDim[2] = Limits::kBlockZ;
  p.maxGridSize[0] = Limits::kGridX;
  p.maxGridSize[1] = p.maxGridSize[2] = Limits::kGridYZ;
  p.maxThreadsPerMultiProcessor = kThreadsPerMultiprocessor;
  p.maxBlocksPerMultiProcessor = kBlocksPerMultiprocessor;
  p.multiProcessorCount = kMultiprocessors;
  p.l2CacheSize = 4 << 20;
  p.unifiedAddressing = p.canMapHostMemory = p.canUseHostPointerForRegisteredMem = 1;
  p.memoryPoolsSupported = 1;
  p.concurrentKernels = p.asyncEngineCount = 1;
  p.textureAlignment = 512;
  return p;
}

int attribute(cudaDeviceAttr name) {
  const cudaDeviceProp p = properties();
  const std::map<cudaDeviceAttr, std::size_t> all{
      {cudaDevAttrMaxThreadsPerBlock, p.maxThreadsPerBlock},
      {cudaDevAttrMaxBlockDimX, p.maxThreadsDim[0]},
      {cudaDevAttrMaxBlockDimY, p.maxThreadsDim[1]},
      {cudaDevAttrMaxBlockDimZ, p.maxThreadsDim[2]},
      {cudaDevAttrMaxGridDimX, p.maxGridSize[0]},
      {cudaDevAttrMaxGridDimY, p.maxGridSize[1]},
      {cudaDevAttrMaxGridDimZ, p.maxGridSize[2]},
      {cudaDevAttrMaxSharedMemoryPerBlock, p.sharedMemPerBlock},
      {cudaDevAttrMaxSharedMemoryPerBlockOptin, p.sharedMemPerBlockOptin},
      {cudaDevAttrMaxSharedMemoryPerMultiprocessor, p.sharedMemPerMultiprocessor},
      {cudaDevAttrWarpSize, p.warpSize},
      {cudaDevAttrMultiProcessorCount, p.multiProcessorCount},
      {cudaDevAttrMaxThreadsPerMultiProcessor, p.maxThreadsPerMultiProcessor},
      {cudaDevAttrMaxBlocksPerMultiprocessor, p.maxBlocksPerMultiProcessor},
      {cudaDevAttrComputeCapabilityMajor, p.major},
      {cudaDevAttrComputeCapabilityMinor, p.minor},
      {cudaDevAttrL2CacheSize, p.l2CacheSize},
      {cudaDevAttrMaxRegistersPerBlock, p.regsPerBlock},
      {cudaDevAttrConcurrentKernels, p.concurrentKernels},
      {cudaDevAttrUnifiedAddressing, p.unifiedAddressing},
      {cudaDevAttrPageableMemoryAccess, p.pageableMemoryAccess},
      {cudaDevAttrMemoryPoolsSupported, p.memoryPoolsSupported},
      {cudaDevAttrCooperativeLaunch, p.cooperativeLaunch},
  };
  const auto found = all.find(name);
  if (found == all.end()) {
    fail(cudaErrorInvalidValue,
         fmt::format("cudaDeviceGetAttribute: attribute {} is not emulated", static_cast<int>(name)));
  }
  return static_cast<int>(found->second);
}

}  // namespace
}  // namespace cuda_on_cpu

using namespace cuda_on_cpu;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  return api([&] { *count = 1; });
}

cudaError_t cudaGetDevice(int* device) {
  return api([&] { *device = 0; });
}

cudaError_t cudaSetDevice(int device) {
  return api([&] { expect_device(device, "cudaSetDevice"); });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* out, int device) {
  return api([&] {
    expect_device(device, "cudaGetDeviceProperties");
    *out = properties();
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr name, int device) {
  return api([&] {
    expect_device(device, "cudaDeviceGetAttribute");
    *value = attribute(name);
  });
}

cudaError_t cudaDriverGetVersion(int* version) {
  return api([&] { *version = CUDART_VERSION; });
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  return api([&] { *version = CUDART_VERSION; });
}

// There is no profiler.
cudaError_t cudaProfilerStart() {
  return api([] {});
}

cudaError_t cudaProfilerStop() {
  return api([] {});
}
}
