#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <giro/runtime/device.h>

namespace giro::cuda {

// The kernels that this process compiled from source or found in the cache; they stay loaded until it ends.
class Kernels {
 public:
  static Kernels& instance();

  // Compiles the sources that are not loaded yet, as one program: for 20 kernels this takes two thirds of the time of
  // compiling them one by one. Errors: those of Nvrtc, device.
  void prepare(Device device, const std::vector<std::string>& sources);
  // The kernel `name` of a source. Errors as for prepare.
  cudaKernel_t find(Device device, const std::string& source, const std::string& name);

 private:
  Kernels() = default;
  using Key = std::pair<int, std::string>;  // architecture, digits of the source
  void compile(int architecture, const std::vector<std::string>& sources);

  std::mutex mutex_;
  std::map<Key, cudaLibrary_t> libraries_;
  std::map<std::pair<Key, std::string>, cudaKernel_t> kernels_;
};

}  // namespace giro::cuda
