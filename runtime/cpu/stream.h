#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <giro/runtime/stream.h>

#include "runtime/internal/backend.h"

namespace giro::cpu {

// Runs each call at once in the calling thread, or, while recording, appends it to the recording's list.
class CpuStream final : public detail::StreamImpl {
 public:
  using Call = std::function<void()>;

  CpuStream();

  template <class F>
  void submit(F&& call) {
    detail::Recording* recording = detail::Recording::current();
    if (recording != nullptr && takes_part_in(*recording)) {
      static_cast<CpuStream&>(recording->stream).calls_.emplace_back(std::forward<F>(call));
    } else {
      call();
    }
  }

  void copy(void* dst, const void* src, std::size_t bytes) override;
  void fill(void* dst, unsigned char value, std::size_t bytes) override;
  void synchronize() override {}
  void wait(const detail::EventImpl&) override {}
  std::unique_ptr<detail::EventImpl> create_event() override;

  void begin_recording() override {}
  std::shared_ptr<detail::GraphImpl> end_recording() override;
  void abandon_recording() noexcept override;

 private:
  std::vector<Call> calls_;  // of the recording so far
};

// Queues a call that takes no arguments on a CPU stream. It must capture addresses, not owners of temporaries.
template <class F>
void submit(const Stream& stream, F&& call) {
  stream.impl().check_usable("a call on the CPU");
  static_cast<CpuStream&>(stream.impl()).submit(std::forward<F>(call));
}

}  // namespace giro::cpu
