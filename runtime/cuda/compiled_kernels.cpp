#include "runtime/cuda/compiled_kernels.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "runtime/cuda/check.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/disk_cache.h"
#include "runtime/cuda/nvrtc.h"
#include "runtime/internal/checksum.h"

namespace giro::cuda {
namespace {

int architecture_of(Device device) {
  int major = 0, minor = 0;
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device.index()), "cudaDeviceGetAttribute");
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device.index()), "cudaDeviceGetAttribute");
  return 10 * major + minor;
}

std::string digits_of(const std::string& text) {
  detail::Checksum checksum;
  checksum.add(text.data(), text.size());
  return checksum.digits();
}

}  // namespace

// Never destroyed: graphs that launch the kernels may still exist while static objects are destroyed.
Kernels& Kernels::instance() {
  static auto* const kernels = new Kernels;
  return *kernels;
}

void Kernels::prepare(Device device, const std::vector<std::string>& sources) {
  const std::lock_guard lock(mutex_);
  make_current(device);
  compile(architecture_of(device), sources);
}

cudaKernel_t Kernels::find(Device device, const std::string& source, const std::string& name) {
  const std::lock_guard lock(mutex_);
  const Key key{architecture_of(device), digits_of(source)};
  const auto known = kernels_.find({key, name});
  if (known != kernels_.end()) return known->second;
  make_current(device);
  if (!libraries_.contains(key)) compile(key.first, {source});
  cudaKernel_t kernel = nullptr;
  check(cudaLibraryGetKernel(&kernel, libraries_.at(key), name.c_str()), "cudaLibraryGetKernel");
  return kernels_[{key, name}] = kernel;
}

void Kernels::compile(int architecture, const std::vector<std::string>& sources) {
  std::vector<Key> keys;
  std::string program;
  for (const std::string& source : sources) {
    const Key key{architecture, digits_of(source)};
    if (libraries_.contains(key) || std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
    keys.push_back(key);
    program += source;
  }
  if (keys.empty()) return;
  const Nvrtc& nvrtc = Nvrtc::instance();
  const std::string cached =
      fmt::format("NVRTC {} sm_{} {}\n{}", nvrtc.version(), architecture, fmt::join(Nvrtc::options(), " "), program);
  std::optional<std::string> code = DiskCache::instance().find(cached);
  if (!code) {
    code = nvrtc.compile(program, architecture);
    DiskCache::instance().add(cached, *code);
  }
  cudaLibrary_t library = nullptr;
  check(cudaLibraryLoadData(&library, code->data(), nullptr, nullptr, 0, nullptr, nullptr, 0), "cudaLibraryLoadData");
  for (const Key& key : keys) libraries_[key] = library;
}

}  // namespace giro::cuda
