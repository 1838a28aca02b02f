#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <giro/runtime/stream.h>

#include "runtime/backend.h"
#include "runtime/op_scope.h"

namespace giro::cpu {

// Runs each call at once in the calling thread, or, while recording, appends it to the recording's list.
class CpuStream final : public detail::StreamImpl {
 public:
  struct Call {
    std::function<void()> run;
    std::string op;  // the op that queued it, for traces
  };

  CpuStream();

  template <class F>
  void submit(F&& call) {
    if (is_recording()) {
      const char* const op = detail::OpScope::name();
      record({std::forward<F>(call), op != nullptr ? op : "call"});
    } else {
      call();
    }
  }
  void replay(const Call& call) {
    if (is_recording()) {
      record(call);
    } else {
      const Span span("op", call.op.c_str());
      call.run();
    }
  }

  void copy(void* dst, const void* src, std::size_t bytes) override;
  void fill(void* dst, unsigned char value, std::size_t bytes) override;
  void synchronize() override {}
  double time(const std::function<void()>& queue) override;
  void wait(const detail::EventImpl&) override {}
  std::shared_ptr<detail::EventImpl> create_event() override;

  void begin_recording() override {}
  std::shared_ptr<detail::GraphImpl> end_recording() override;
  void abandon_recording() noexcept override;

 private:
  // Appends to the list of the recording's own stream, which this one may have joined.
  static void record(Call call) {
    static_cast<CpuStream&>(detail::StreamRecording::current()->stream).calls_.push_back(std::move(call));
  }

  std::vector<Call> calls_;  // of the recording so far
};

// Queues a call that takes no arguments on a CPU stream. It must capture addresses, not owners of temporaries.
template <class F>
void submit(const Stream& stream, F&& call) {
  stream.impl().check_usable("a call on the CPU");
  static_cast<CpuStream&>(stream.impl()).submit(std::forward<F>(call));
}

}  // namespace giro::cpu
