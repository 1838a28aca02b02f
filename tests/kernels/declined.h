#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "tests/cuda_on_cpu/libraries/decline.h"

namespace giro::test {

// While an object exists, the emulated cuBLASLt and cuDNN (tests/cuda_on_cpu) decline every product and convolution. On
// a GPU it does nothing and converts to false. Plans that a stream already has are not requested again. `what` makes
// them fail in another way.
class Declined {
 public:
  using Decline = cuda_on_cpu::Decline;

  explicit Declined(Decline what = Decline::everything)
      : decline_(reinterpret_cast<void (*)(Decline)>(dlsym(RTLD_DEFAULT, "cuda_on_cpu_decline"))) {
    if (decline_ != nullptr) decline_(what);
  }
  ~Declined() {
    if (decline_ != nullptr) decline_(Decline::nothing);
  }
  Declined(const Declined&) = delete;
  Declined& operator=(const Declined&) = delete;

  explicit operator bool() const { return decline_ != nullptr; }

 private:
  void (*decline_)(Decline);
};

// A test that is skipped where a library cannot be made to decline.
template <class Test, cuda_on_cpu::Decline what = cuda_on_cpu::Decline::everything>
class DeclinedTest : public Test {
 protected:
  void SetUp() override {
    if (!declined_) GTEST_SKIP() << "the libraries decline on request in the emulation alone";
    Test::SetUp();
  }

 private:
  Declined declined_{what};
};

}  // namespace giro::test
