#include "runtime/cuda/captures.h"

#include <utility>

#include "runtime/cuda/stream_handles.h"

namespace giro::cuda {

Captures& Captures::instance() {
  static Captures captures;
  return captures;
}

void Captures::begin() {
  const std::lock_guard lock(mutex_);
  num_active_ += 1;
}

void Captures::end() noexcept {
  // Closed under the lock, so that no capture begins in the meantime.
  const std::lock_guard lock(mutex_);
  num_active_ -= 1;
  if (num_active_ > 0) return;
  while (waiting_) waiting_ = std::move(waiting_->next);
}

void Captures::close(std::unique_ptr<StreamHandles> handles) noexcept {
  const std::lock_guard lock(mutex_);
  if (num_active_ == 0) {
    handles.reset();
    return;
  }
  handles->next = std::move(waiting_);
  waiting_ = std::move(handles);
}

}  // namespace giro::cuda
