#include "runtime/stream_recording.h"

#include <atomic>

#include "runtime/backend.h"
#include "runtime/throw_error.h"

namespace giro::detail {
namespace {

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

StreamRecording::StreamRecording(StreamImpl& on) : stream(on), id(next_id()) {
  if (current_ != nullptr) throw_invalid("a recording cannot start inside another on the same thread");
  stream.check_usable("a recording");
  stream.recorded_as.store(id, std::memory_order_relaxed);
  current_ = this;
}

void StreamRecording::end() noexcept {
  if (current_ != this) return;
  current_ = nullptr;
  stream.recorded_as.store(0, std::memory_order_relaxed);
}

void StreamRecording::expect_none(const char* call) {
  if (current_ == nullptr) return;
  throw_invalid(
      "{}: called in a step that is being recorded, where it would run once instead of in each step; expected a call "
      "between steps, or in a callback of the loop",
      call);
}

}  // namespace giro::detail
