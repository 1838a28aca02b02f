#pragma once

#include <utility>

namespace giro::detail {

// A backend's op runs while one of these lives: it may take the addresses of values that a recording has yet to compute
// (Tensor::data), for kernels that will run at the replay.
class OpScope {
 public:
  OpScope() : outer_(std::exchange(is_open_, true)) {}
  ~OpScope() { is_open_ = outer_; }
  OpScope(const OpScope&) = delete;
  OpScope& operator=(const OpScope&) = delete;

  // Of the calling thread.
  static bool is_open() noexcept { return is_open_; }

 private:
  bool outer_;
  static inline constinit thread_local bool is_open_ = false;
};

}  // namespace giro::detail
