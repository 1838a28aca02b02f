#pragma once

#include <utility>

#include <giro/runtime/span.h>

namespace giro::detail {

// While an instance lives, a backend's op is running: it may take the addresses of values that a recording has not
// computed yet (Tensor::data), for kernels that run at the replay. Traces show the op, and what it queues, under its
// name.
class OpScope : NotCopied {
 public:
  explicit OpScope(const char* name) : outer_(std::exchange(name_, name)), span_("op", name) {}
  ~OpScope() { name_ = outer_; }

  // In the calling thread.
  static bool is_open() noexcept { return name_ != nullptr; }
  // The name of the innermost one, or null.
  static const char* name() noexcept { return name_; }

 private:
  const char* outer_;
  Span span_;
  static inline constinit thread_local const char* name_ = nullptr;
};

}  // namespace giro::detail
