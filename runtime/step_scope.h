#pragma once

#include <string>
#include <utility>

#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

namespace giro::detail {

// While an instance lives, work that this thread queues on the stream belongs to a call of a step.
class StepScope {
 public:
  StepScope(const std::string& name, const Tensor& call, const Stream& stream) noexcept
      : name(name), call(call), stream(stream), outer_(std::exchange(current_, this)) {}
  ~StepScope() { current_ = outer_; }
  StepScope(const StepScope&) = delete;
  StepScope& operator=(const StepScope&) = delete;

  // Null outside of steps on that stream.
  static const StepScope* current(const Stream& stream) noexcept {
    return current_ != nullptr && current_->stream == stream ? current_ : nullptr;
  }

  const std::string& name;
  const Tensor& call;
  const Stream& stream;

 private:
  const StepScope* outer_;
  static inline constinit thread_local const StepScope* current_ = nullptr;
};

}  // namespace giro::detail
