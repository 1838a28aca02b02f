#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <giro/runtime/device.h>

#include "runtime/cuda/kernel_cache.h"

namespace giro::cuda {

// The kernels that this process has compiled from source, or found compiled in the cache; they stay until it ends.
class Kernels {
 public:
  static Kernels& of_process();

  // Compiles those of the sources that are not there yet, as one program: 20 kernels take two thirds of the time that
  // they take one by one. Errors: those of Nvrtc, device.
  void prepare(Device device, const std::vector<std::string>& sources);
  // Of a source, by the name that it has in it. Errors as of prepare.
  cudaKernel_t find(Device device, const std::string& source, const std::string& name);

  // Why compiled kernels are not kept from run to run, empty if they are or were not asked to be.
  std::string cache_trouble();

 private:
  Kernels() : cache_(KernelCache::of_environment()) {}
  using Key = std::pair<int, std::string>;  // architecture, digits of the source
  void compile(int architecture, const std::vector<std::string>& sources);

  std::mutex mutex_;
  KernelCache cache_;
  std::map<Key, cudaLibrary_t> libraries_;
  std::map<std::pair<Key, std::string>, cudaKernel_t> kernels_;
};

}  // namespace giro::cuda
