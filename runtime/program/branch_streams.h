#pragma once

#include <cstddef>
#include <deque>
#include <memory>

#include "runtime/internal/backend.h"
#include "runtime/program/branches.h"

namespace giro::detail {

// Orders a recording's stream and its second stream, which runs the ops aside (branches.h), with events.
class BranchStreams {
 public:
  // `side_stream` is null if no op is aside.
  BranchStreams(Recording& recording, StreamImpl* side_stream) : recording_(recording), side_stream_(side_stream) {}

  // Call before and after op `i` is queued on its stream, in the order of the ops.
  void begin(std::size_t i, const Branch& branch);
  void end(const Branch& branch);
  // The recording's stream waits for everything that is still aside.
  void join();

 private:
  struct Open {
    std::size_t joined;
    std::shared_ptr<EventImpl> done;
  };
  Recording& recording_;
  StreamImpl* side_stream_;
  std::deque<Open> open_;    // not waited for yet, in order
  bool must_follow_ = true;  // the recording's stream has work that `side_stream_` has not waited for
};

}  // namespace giro::detail
