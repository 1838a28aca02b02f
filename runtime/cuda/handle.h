#pragma once

#include <utility>

namespace giro::cuda {

// Owns one of the opaque pointers that CUDA and its libraries hand out. Move-only.
template <class T, auto kDestroy>
class Handle {
 public:
  Handle() = default;
  Handle(Handle&& other) noexcept : value_(std::exchange(other.value_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~Handle() { reset(); }

  operator T() const noexcept { return value_; }
  // Where a create function stores a new pointer.
  T* out() noexcept {
    reset();
    return &value_;
  }

 private:
  // A failure to destroy cannot be reported.
  void reset() noexcept {
    if (value_ != nullptr) (void)kDestroy(std::exchange(value_, nullptr));
  }

  T value_ = nullptr;
};

}  // namespace giro::cuda
