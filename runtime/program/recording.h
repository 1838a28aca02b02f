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

// The recording in progress on this thread. Meanwhile, work that the thread queues on a stream outside of the recording
// would not be recorded, and would run at another time: that is an error.
//
// Ops are held back until all are known, or until work arrives that giro knows too little about (a user's own kernel).
// Then the held ops are rewritten, their temporaries get their memory, and they are queued.
struct Recording {
  // `rewrite` may be null.
  Recording(StreamImpl& stream, Rewrite rewrite);
  // Whether this thread does a dry run (GraphRecorder): no work is kept, and temporaries have no memory.
  static bool is_dry() noexcept { return current_ != nullptr && current_->is_dry_; }
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  // The recording of the calling thread, or null.
  static Recording* current() noexcept { return current_; }
  static std::uint64_t current_id() noexcept { return current_ != nullptr ? current_->id : 0; }
  // For host work on values and files, which no replay would repeat. Error(invalid_argument) in a recording, naming the
  // call.
  static void expect_none(const char* call);
  static Recording* exchange_current(Recording* other) noexcept { return std::exchange(current_, other); }

  // Whether work that this thread queues now is held back; work that an op queues itself is not.
  static bool holds() noexcept;
  void hold(HeldOp op);
  // Holds a closure, f(tensors..., stream), as an op of that kind.
  template <class F, std::size_t kTensors>
  void hold(HeldOp::Kind kind, Program::Node node, const Stream& stream, F f,
            const std::array<Tensor, kTensors>& tensors) {
    node.is_op = false;
    hold({std::move(node), stream, std::make_shared<ClosureCall<F, kTensors>>(std::move(f), tensors), kind});
  }
  // Takes the one held op. Error(invalid_argument) if there are none or several.
  HeldOp take_single_op();
  const std::vector<HeldOp>& held() const noexcept { return held_; }
  // Queues what is held. Temporaries still in use keep their addresses. After an error every call throws it again,
  // because ops have been lost.
  void flush();
  // Stops holding work back: the stream's handle was given out, and work may be queued that giro does not see.
  void share();
  // Memory for the workspaces of ops on that stream.
  Arena& arena_of(StreamImpl& queued_on);
  // A temporary with its own address.
  Buffer allocate(std::size_t bytes);
  // Keeps memory that the work uses, unless it is one of the recording's temporaries.
  void keep(const std::shared_ptr<const void>& memory, const void* address);

  StreamImpl& stream;
  const std::uint64_t id;  // unique
  // Memory of its temporaries and of workspaces, by the stream that the work is queued on; each arena is shared with
  // other recordings of that stream.
  std::vector<std::pair<StreamImpl*, std::shared_ptr<Arena>>> arenas;
  std::shared_ptr<Arena> trace;                   // where temporaries lie during tracing
  std::vector<std::shared_ptr<const void>> kept;  // other memory that the graph needs
  UsedStates states;
  PeerList peers;   // that its work waits for
  Program program;  // its ops queued so far
  // The calls that queue the nodes of the program again; null, or past the end, for work that is not an op of giro.
  std::vector<std::shared_ptr<const OpCall>> calls;
  bool has_events = false;            // events stand for parts of its work
  std::size_t largest_workspace = 0;  // that an op requested, in bytes

 private:
  friend class GraphRecorder;
  void queue(std::vector<HeldOp>& ops);
  void pin_memory_of_other_streams(const std::vector<HeldOp>& ops);
  bool has_branches() const;
  std::shared_ptr<StreamImpl> open_side_stream(const std::vector<HeldOp>& ops, Temporaries& temporaries,
                                               std::vector<Branch>& branches);
  Buffer plan(Temporaries& temporaries, MemoryMoves& moves);

  Rewrite rewrite_;
  std::vector<HeldOp> held_;
  bool is_shared_ = false;
  bool is_dry_ = false;
  std::exception_ptr failure_;
  static inline constinit thread_local Recording* current_ = nullptr;
};

}  // namespace giro::detail
