#pragma once

#include <gtest/gtest.h>

#include <giro/runtime/device.h>

namespace giro::test {

// A test that is skipped if the machine has no GPU.
class CudaTest : public testing::Test {
 protected:
  virtual void prepare(Device device) = 0;  // called before each test that is not skipped

  void SetUp() override {
    const Discovery discovery = discover_devices();
    if (discovery.best().is_cpu()) GTEST_SKIP() << "no CUDA device: " << discovery.no_cuda_reason;
    prepare(discovery.best());
  }
};

}  // namespace giro::test
