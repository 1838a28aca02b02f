#pragma once

#include <dlfcn.h>

namespace giro::test {

// While an object lives, cuBLASLt and cuDNN decline every product and convolution if they are emulated
// (tests/cuda_on_cpu). It is false on a GPU. Plans that a stream has already made are not requested again. With `mode`
// 2, cuDNN's plans are made and refuse to run (tests/cuda_on_cpu/libraries/decline.h).
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
