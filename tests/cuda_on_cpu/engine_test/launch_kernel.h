#pragma once

// Launches a translated kernel directly through the engine, without the CUDA runtime.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "tests/cuda_on_cpu/engine/engine.h"

namespace giro::simt {

// Memory that kernels may access, aligned to 256 bytes like cudaMalloc's.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t count)
      : count_(count), data_(static_cast<T*>(::operator new(count * sizeof(T), kAlignment))) {
    memory().add(data_, count * sizeof(T), false);
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    std::memcpy(data_, values.data(), values.size() * sizeof(T));
    EXPECT_EQ(memory().write(data_, values.size() * sizeof(T), 0, "copy"), "");
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() {
    free();
    ::operator delete(data_, kAlignment);
  }

  // Like cudaFree, but the process keeps the bytes, so a kernel that reads them anyway does no harm.
  void free() { memory().remove(data_); }

  T* data() const { return data_; }
  std::vector<T> values() const { return {data_, data_ + count_}; }

 private:
  static constexpr std::align_val_t kAlignment{256};

  std::size_t count_;
  T* data_;
};

// The only kernel with `part` in its demangled name.
const Kernel& kernel_named(const std::string& part);

template <class... Arguments>
Outcome run(const Kernel& kernel, Dim3 grid, Dim3 block, std::size_t dynamic_shared_bytes, Arguments... arguments) {
  EXPECT_EQ(kernel.parameters.size(), sizeof...(arguments)) << kernel.name;
  void* pointers[] = {&arguments...};
  return launch(kernel,
                {.grid = grid, .block = block, .dynamic_shared_bytes = dynamic_shared_bytes, .arguments = pointers});
}

// Calls f with each of the test's seeds, then restores the environment's seed.
class Seeds {
 public:
  static constexpr std::uint64_t kCount = 10;

  template <class F>
  static void each(F f) {
    const Options before = options();
    for (std::uint64_t seed = 0; seed < kCount; ++seed) {
      options().seed = seed;
      SCOPED_TRACE("seed " + std::to_string(seed));
      f();
    }
    options() = before;
  }
};

}  // namespace giro::simt
