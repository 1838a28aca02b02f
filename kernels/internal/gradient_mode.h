#pragma once

#include <utility>

namespace giro::detail {

// Whether results that this thread computes from Vars can be differentiated. They can, unless a GradientMode turns that
// off, as during a backward pass.
class GradientMode {
 public:
  explicit GradientMode(bool on) noexcept : outer_(std::exchange(on_, on)) {}
  ~GradientMode() { on_ = outer_; }
  GradientMode(const GradientMode&) = delete;
  GradientMode& operator=(const GradientMode&) = delete;

  static bool is_on() noexcept { return on_; }

 private:
  bool outer_;
  static inline constinit thread_local bool on_ = true;
};

}  // namespace giro::detail
