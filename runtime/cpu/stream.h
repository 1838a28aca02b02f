#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <giro/runtime/stream.h>

#include "runtime/internal/backend.h"

namespace giro::cpu {

// Runs each call at once in the calling thread, or, while recording, appends it to a list.
class CpuStream final : public detail::StreamImpl {
 public:
  using Call = std::function<void()>;

  CpuStream();

  template <class F>
  void submit(F&& call) {
    if (recording_) {
      calls_.emplace_back(std::forward<F>(call));
    } else {
      call();
    }
  }

  void copy(void* dst, const void* src, std::size_t bytes) override;
  void fill(void* dst, unsigned char value, std::size_t bytes) override;
  void synchronize() override {}
  void wait(const detail::EventImpl&) override {}
  std::unique_ptr<detail::EventImpl> create_event() override;

  bool is_recording() const override { return recording_; }
  void begin_recording() override;
  std::unique_ptr<detail::GraphImpl> end_recording() override;
  void abandon_recording() noexcept override;

 private:
  bool recording_ = false;
  std::vector<Call> calls_;
};

// Queues a call that takes no arguments on a CPU stream. It must capture addresses, not owners of temporaries.
template <class F>
void submit(const Stream& stream, F&& call) {
  static_cast<CpuStream&>(stream.impl()).submit(std::forward<F>(call));
}

}  // namespace giro::cpu
