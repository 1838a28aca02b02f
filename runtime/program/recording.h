#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include <giro/runtime/program.h>

#include "runtime/internal/peers.h"
#include "runtime/internal/used_states.h"
#include "runtime/program/held_op.h"

namespace giro {
class Arena;
}

namespace giro::detail {

class StreamImpl;
struct Branch;
struct Temporaries;

// The recording that this thread makes. While there is one, work that the thread queues on a stream which takes no
// part in it would be lost to the recording, and run at a time of its own: that is an error.
//
// The ops that it queues are held back until all are known, or until work comes of which giro knows too little (a
// kernel of the user's own): then what is held is rewritten, its temporaries get their memory, and it is queued.
struct Recording {
  // `rewrite` may be null.
  Recording(StreamImpl& stream, Rewrite rewrite);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  // Of the calling thread, or null.
  static Recording* current() noexcept { return current_; }
  static std::uint64_t current_id() noexcept { return current_ != nullptr ? current_->id : 0; }
  // For what the host does with values and files, which no replay would do again. Error(invalid_argument) in a
  // recording, naming the call.
  static void expect_none(const char* call);
  static Recording* exchange_current(Recording* other) noexcept { return std::exchange(current_, other); }

  // Whether what this thread queues now is held back: what an op queues itself is not.
  static bool holds() noexcept;
  void hold(HeldOp op);
  // Holds a closure, f(tensors..., stream), of that kind.
  template <class F, std::size_t kTensors>
  void hold(HeldOp::Kind kind, Program::Node node, const Stream& stream, F f,
            const std::array<Tensor, kTensors>& tensors) {
    node.is_op = false;
    hold({std::move(node), stream, std::make_shared<ClosureCall<F, kTensors>>(std::move(f), tensors), kind});
  }
  // The one op that is held. Error(invalid_argument) if there are none or several.
  HeldOp take_only();
  const std::vector<HeldOp>& held() const noexcept { return held_; }
  // Queues what is held. Temporaries that are still in use keep the addresses that they have. What it throws it throws
  // each time from then on: ops have been lost.
  void flush();
  // Holds nothing back any more: somebody has a handle of the stream and queues work of which nobody tells.
  void share();
  // Memory for what an op on that stream needs while it runs.
  Arena& arena_of(StreamImpl& queued_on);
  // A temporary, at an address of its own.
  Buffer allocate(std::size_t bytes);
  // Memory that its work uses, unless it is one of its temporaries.
  void keep(const std::shared_ptr<const void>& memory, const void* address);

  StreamImpl& stream;
  const std::uint64_t id;  // of this recording and no other
  // Of its temporaries and of what ops need while they run, by the stream that these are queued on: each is shared with
  // other recordings of that stream.
  std::vector<std::pair<StreamImpl*, std::shared_ptr<Arena>>> arenas;
  std::shared_ptr<Arena> trace;                   // where they lie while it is traced
  std::vector<std::shared_ptr<const void>> kept;  // what the graph needs besides
  UsedStates states;
  PeerList peers;   // that its work waits for
  Program program;  // its ops that were queued
  // What queues each node of the program again; null, or past the end, for what is no op of giro's.
  std::vector<std::shared_ptr<const OpCall>> calls;
  bool has_events = false;            // events stand for parts of its work
  std::size_t largest_workspace = 0;  // that an op has asked for, in bytes

 private:
  void queue(std::vector<HeldOp>& ops);
  void pin_what_others_use(const std::vector<HeldOp>& ops);
  std::shared_ptr<StreamImpl> put_aside(const std::vector<HeldOp>& ops, Temporaries& temporaries,
                                        std::vector<Branch>& branches);
  Buffer plan(Temporaries& temporaries, MemoryMoves& moves);

  Rewrite rewrite_;
  std::vector<HeldOp> held_;
  bool is_shared_ = false;
  std::exception_ptr failure_;
  static inline constinit thread_local Recording* current_ = nullptr;
};

}  // namespace giro::detail
