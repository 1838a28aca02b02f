#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <giro/runtime/program.h>
#include <giro/runtime/state.h>

#include "runtime/internal/peers.h"
#include "runtime/program/held_op.h"

namespace giro {
class Arena;
class Graph;
struct RecordOptions;
}  // namespace giro

namespace giro::detail {

class StreamImpl;
struct Branch;
struct Temporaries;

// Stays with a state's leaves when the state is moved.
struct StateIdentity {
  StateIdentity(const State* owner, std::uint64_t made_in) : owner(owner), made_in(made_in) {}

  mutable std::atomic<const State*> owner;         // the object that has the leaves now
  mutable std::atomic<std::uint64_t> moved_in{0};  // the recording during which they last moved, or 0
  const std::uint64_t made_in;                     // the recording during which the state was made, or 0
  mutable std::vector<State::Declared> declared{};
};

// A state that recorded work uses. While it is there, a replay does what the recorded function would do.
struct WatchedState {
  std::weak_ptr<const StateIdentity> identity;
  const State* owner;  // null: it moved during the recording

  bool is_valid() const {
    const std::shared_ptr<const StateIdentity> state = identity.lock();
    return state && state->owner == owner;
  }
};

// The states used while a recording is made. Their memory is kept until the recording is done, and then by the graph.
class UsedStates {
 public:
  void add(const std::shared_ptr<const StateIdentity>& identity,
           const std::vector<std::shared_ptr<Collection>>& collections);
  void add(const std::vector<WatchedState>& of_replayed_graph);

  // The states that a recording must watch from its end on; appends the memory that it keeps to `kept`. A state that
  // the recording made and dropped is only kept. `main`, as long as it exists, is neither watched nor kept: its owner
  // watches it.
  std::vector<WatchedState> watch(std::uint64_t recording, const StateIdentity* main,
                                  std::vector<std::shared_ptr<const void>>& kept) const;
  // Names the states that work on a stream by their collections, e.g. " (the state of params, grads, step)"; "" for
  // none.
  std::string describe(const StreamImpl& stream) const;

 private:
  struct Used {
    const StateIdentity* id;
    std::uint64_t made_in;
    WatchedState state;
    std::vector<std::shared_ptr<Collection>> collections;
  };
  std::vector<Used> used_;
  std::vector<WatchedState> of_graphs_;
};

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
  bool has_collectives = false;
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

class GraphRecorder {
 public:
  // Like Graph::record, but `rewrite` may replace ops before they are queued.
  static Graph record(const Stream& stream, const std::function<void()>& body, const RecordOptions& options,
                      Rewrite rewrite);
  // Runs `body` as if it were recorded, and drops what it queues: shapes and dtypes are checked, but values have no
  // memory, and nothing is prepared for the device. Errors: those of `body`, and of Graph::record.
  static void dry_run(const Stream& stream, const std::function<void()>& body);
};

// Call before queueing work that a recording cannot hold back. Queues what is held, and adds a node for the work.
inline void record_opaque_op(std::string op, std::vector<Tensor> writes = {}, std::vector<Tensor> reads = {}) {
  if (!Recording::holds()) return;
  Recording::current()->flush();
  Program::Node node(std::move(op), std::move(writes), std::move(reads));
  node.is_op = false;
  Recording::current()->program.add(std::move(node));
}

}  // namespace giro::detail
