#pragma once

#include <dlfcn.h>

namespace giro::test {

// While it lives, cuBLASLt and cuDNN decline every product and convolution, where the emulation stands in for them
// (tests/cuda_on_cpu); false on a GPU. Plans that a stream has made are not asked for again.
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
