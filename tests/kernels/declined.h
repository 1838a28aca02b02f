#pragma once

#include <dlfcn.h>

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

}  // namespace giro::test
