#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

namespace giro::test {

// While an object exists, the emulated cuBLASLt and cuDNN (tests/cuda_on_cpu) decline every product and convolution. On
// a GPU it does nothing and converts to false. Plans that a stream already has are not requested again. With `mode` 2,
// cuDNN's plans are made but fail when run (tests/cuda_on_cpu/libraries/decline.h).
class Declined {
 public:
  explicit Declined(int mode = 1)
      : decline_(reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "cuda_on_cpu_decline"))) {
    if (decline_ != nullptr) decline_(mode);
  }
  ~Declined() {
    if (decline_ != nullptr) decline_(0);
  }
  Declined(const Declined&) = delete;
  Declined& operator=(const Declined&) = delete;

  explicit operator bool() const { return decline_ != nullptr; }

 private:
  void (*decline_)(int);
};

// A test that is skipped where a library cannot be made to decline.
template <class Test, int mode = 1>
class DeclinedTest : public Test {
 protected:
  void SetUp() override {
    if (!declined_) GTEST_SKIP() << "the libraries decline on request in the emulation alone";
    Test::SetUp();
  }

 private:
  Declined declined_{mode};
};

}  // namespace giro::test
