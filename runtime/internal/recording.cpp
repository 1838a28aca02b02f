#include "runtime/internal/recording.h"

#include <fmt/format.h>

#include <atomic>

#include <giro/runtime/error.h>

#include "runtime/internal/arena.h"
#include "runtime/internal/backend.h"

namespace giro::detail {
namespace {

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

std::shared_ptr<Arena> recording_arena(StreamImpl& stream) {
  if (Arena::is_off()) return std::make_shared<Arena>(stream.device, Arena::Of::recording);
  std::shared_ptr<Arena> shared = stream.recordings.lock();
  if (!shared) stream.recordings = shared = std::make_shared<Arena>(stream.device, Arena::Of::recording);
  return shared;
}

}  // namespace

Recording::Recording(StreamImpl& on) : stream(on), id(next_id()) {
  if (current_ != nullptr) {
    throw Error(ErrorCode::invalid_argument, "a recording cannot start inside another of the same thread");
  }
  stream.check_usable("a recording");
  arena = recording_arena(stream);
  stream.recorded_as.store(id, std::memory_order_relaxed);
  current_ = this;
}

Recording::~Recording() {
  current_ = nullptr;
  stream.recorded_as.store(0, std::memory_order_relaxed);
}

void StreamImpl::refuse(const char* call) const {
  const Recording* recording = Recording::current();
  if (recording == nullptr || takes_part_in(*recording)) {
    throw Error(ErrorCode::invalid_argument, fmt::format("{}: this stream of {} is being recorded, by another thread, "
                                                         "or by this one, which has set its recording aside",
                                                         call, to_string(device)));
  }
  const bool same = device == recording->stream.device;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{}: work was queued on another stream, of {}, while this thread records on {} of {}; a "
                          "recorded step may touch one device context only",
                          call, to_string(device), same ? "one" : "a stream", to_string(recording->stream.device)));
}

}  // namespace giro::detail
