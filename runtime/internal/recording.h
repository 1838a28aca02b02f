#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <giro/runtime/program.h>

#include "runtime/internal/peers.h"

namespace giro {
class Arena;
}

namespace giro::detail {

class StreamImpl;

// The recording that this thread makes. While there is one, work that the thread queues on a stream which takes no
// part in it would be lost to the recording, and run at a time of its own: that is an error.
struct Recording {
  explicit Recording(StreamImpl& stream);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  // Of the calling thread, or null.
  static Recording* current() noexcept { return current_; }
  static Recording* exchange_current(Recording* other) noexcept { return std::exchange(current_, other); }

  StreamImpl& stream;
  const std::uint64_t id;                         // of this recording and no other
  std::shared_ptr<Arena> arena;                   // of its temporaries
  std::vector<std::shared_ptr<const void>> kept;  // what the graph needs besides
  PeerList peers;                                 // that its work waits for
  Program program;                                // its ops
  bool has_events = false;                        // events stand for parts of its work

 private:
  static inline constinit thread_local Recording* current_ = nullptr;
};

}  // namespace giro::detail
