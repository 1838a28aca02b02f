#pragma once

#include <dlfcn.h>

namespace giro::test {

// While an object lives, cuBLASLt and cuDNN decline every product and convolution if they are emulated
// (tests/cuda_on_cpu). It is false on a GPU. Plans that a stream has already made are not requested again.
class Declined {
 public:
  Declined() : decline_(reinterpret_cast<void (*)(bool)>(dlsym(RTLD_DEFAULT, "cuda_on_cpu_decline"))) {
    if (decline_ != nullptr) decline_(true);
  }
  ~Declined() {
    if (decline_ != nullptr) decline_(false);
  }
  Declined(const Declined&) = delete;
  Declined& operator=(const Declined&) = delete;

  explicit operator bool() const { return decline_ != nullptr; }

 private:
  void (*decline_)(bool);
};

}  // namespace giro::test
