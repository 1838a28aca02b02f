#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include <giro/runtime/buffer.h>
#include <giro/runtime/device.h>
#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

namespace giro::test {

// A test that runs on each kind of device and is skipped if the machine has none of that kind.
class DeviceTest : public testing::TestWithParam<Device::Kind> {
 protected:
  virtual void prepare() {}  // called before each test that is not skipped

  void SetUp() override {
    if (GetParam() == Device::Kind::cpu) return prepare();
    const Discovery discovery = discover_devices();
    if (discovery.best().is_cpu()) GTEST_SKIP() << "no CUDA device: " << discovery.no_cuda_reason;
    prepare();
  }
  static Device device() { return GetParam() == Device::Kind::cpu ? Device::cpu() : Device::cuda(); }

  // A new i64 scalar.
  Tensor scalar(std::int64_t value, const Stream& stream) {
    buffers_.push_back(Buffer::allocate(device(), sizeof value));
    const Tensor tensor(buffers_.back().data(), DType::i64, {}, device());
    from_host<std::int64_t>(tensor, {value}, stream);
    return tensor;
  }
  static std::int64_t read(const Tensor& tensor, const Stream& stream) {
    return to_host<std::int64_t>(tensor, stream).front();
  }

 private:
  std::vector<Buffer> buffers_;
};

inline const auto kEachDevice = testing::Values(Device::Kind::cpu, Device::Kind::cuda);
inline std::string name_of_device(const testing::TestParamInfo<Device::Kind>& info) {
  return info.param == Device::Kind::cpu ? "cpu" : "cuda";
}

}  // namespace giro::test
