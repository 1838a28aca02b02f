#pragma once

// Shared code of the emulated libraries' tests: device memory on a stream.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string_view>
#include <vector>

namespace cuda_on_cpu::test {

using Values = std::vector<float>;

// Whether this is the emulation, which sums in double and rounds once. A GPU sums in float, in its own order.
inline bool emulated() {
  cudaDeviceProp properties{};
  EXPECT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
  return std::string_view(properties.name) == "emulated";
}

inline void expect_close(const Values& actual, const std::vector<double>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double size = std::abs(expected[i]);
    EXPECT_NEAR(actual[i], expected[i], emulated() ? size * 0x1p-24 + 1e-12 : (size + 1) * 1e-5) << i;
  }
}

// Each test destroys what it creates, so nothing is left at exit.
class LibraryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "no CUDA device";
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
  }
  void TearDown() override {
    if (IsSkipped()) return;
    for (void* data : allocations_) EXPECT_EQ(cudaFree(data), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
  }

  // Returns uninitialised memory.
  float* memory(std::size_t count) {
    void* data = nullptr;
    EXPECT_EQ(cudaMalloc(&data, count * sizeof(float)), cudaSuccess);
    allocations_.push_back(data);
    return static_cast<float*>(data);
  }
  float* device(const Values& values) {
    float* data = memory(values.size());
    EXPECT_EQ(cudaMemcpyAsync(data, values.data(), values.size() * sizeof(float), cudaMemcpyDefault, stream_),
              cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    return data;
  }
  Values host(const float* data, std::size_t count) {
    Values values(count);
    EXPECT_EQ(cudaMemcpyAsync(values.data(), data, count * sizeof(float), cudaMemcpyDefault, stream_), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess) << cudaGetErrorString(cudaPeekAtLastError());
    return values;
  }
  // Values in [-1, 1) of 12 bits. Sums of products of two of them are exact in double.
  Values random(std::size_t count) {
    Values values(count);
    for (float& value : values) value = static_cast<float>(random_() % 4096) / 2048.0f - 1.0f;
    return values;
  }

  // Waits for the stream and ends the process, with status 3 and the reason if the wait fails. For EXPECT_EXIT, because
  // a lost device stays lost.
  [[noreturn]] void wait_and_exit() const {
    const cudaError_t code = cudaStreamSynchronize(stream_);
    std::fprintf(stderr, "%s\n", cudaGetErrorString(code));
    std::_Exit(code == cudaSuccess ? 0 : 3);
  }

  cudaStream_t stream_ = nullptr;

 private:
  std::vector<void*> allocations_;
  std::mt19937 random_{20240229};
};

}  // namespace cuda_on_cpu::test
