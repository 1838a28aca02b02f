#pragma once

#include <cstddef>
#include <deque>
#include <memory>

#include "runtime/internal/backend.h"
#include "runtime/program/branches.h"

namespace giro::detail {

// The order between a recording's stream and the one beside it, on which its ops aside are queued: by events.
class BranchStreams {
 public:
  // `aside` is null if no op is aside.
  BranchStreams(Recording& recording, StreamImpl* aside) : recording_(recording), aside_(aside) {}

  // To be called before op `i` is queued on its stream, and after; in the order of the ops.
  void begin(std::size_t i, const Branch& branch);
  void end(const Branch& branch);
  // The recording's stream waits for all that is still aside.
  void join();

 private:
  struct Open {
    std::size_t joined;
    std::shared_ptr<EventImpl> done;
  };
  Recording& recording_;
  StreamImpl* aside_;
  std::deque<Open> open_;    // what nothing has waited for, in order
  bool must_follow_ = true;  // the recording's stream has work that the other has not waited for
};

}  // namespace giro::detail
