#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <giro/runtime/program/program.h>

#include "runtime/held_values.h"
#include "runtime/peers.h"
#include "runtime/program/held_op.h"
#include "runtime/stream_recording.h"

namespace giro {
class Graph;
struct RecordOptions;
}  // namespace giro

namespace giro::detail {

class Homes;
struct Branch;

// What a graph keeps alive.
struct GraphOwned {
  std::vector<std::shared_ptr<Arena>> arenas;     // of its temporaries
  std::vector<std::shared_ptr<const void>> kept;  // everything else it uses
  std::vector<WatchedState> states;               // that it uses, except the one that its owner watches
  PeerList peers;                                 // that its work waits for
  Program program;                                // its ops
  // The calls that queue the nodes of the program again; null for work that is not an op of giro.
  std::vector<std::shared_ptr<const OpCall>> calls;
  std::vector<MemoryRange> writes;  // memory that a replay changes, without its temporaries
  bool is_blocking = false;         // replay op by op if all are ops, and wait in any case
  std::int64_t replays = 0;         // so far, if is_blocking

  // Adds the ops of a graph that runs as a part of this one, and what these wait for.
  void add_ops(const GraphOwned& part);
};

// Work that is being recorded. Ops are held back until all are known, or until work arrives that giro knows too little
// about (a user's own kernel). Then the held ops are rewritten, their temporaries get their memory, and they are
// queued.
struct Recording final : StreamRecording {
  Recording(StreamImpl& stream, const Rewrite& rewrite);
  ~Recording() { end(); }

  // Like Graph::record, with rules.
  static Graph record(const Stream& stream, const std::function<void()>& body, const RecordOptions& options,
                      const Rewrite& rewrite);
  // Runs `body` as if it were recorded, and drops what it queues: shapes and dtypes are checked, but nothing is
  // prepared for the device, and values have no memory unless `body` asks for their addresses. Errors: those of `body`,
  // and of Graph::record.
  static void dry_run(const Stream& stream, const std::function<void()>& body);

  // The recording of the calling thread, or null.
  static Recording* current() noexcept { return static_cast<Recording*>(StreamRecording::current()); }

  void hold(HeldOp op);
  const std::vector<HeldOp>& held() const noexcept { return held_; }
  // Queues what is held. Temporaries still in use get addresses, which they keep. After an error every call throws it
  // again, because ops have been lost.
  void flush();
  // Stops holding work back: the stream's handle was given out, and work may be queued that giro does not see.
  void share();
  // Memory for the workspaces of ops on that stream.
  Arena& arena_of(StreamImpl& queued_on);

  void hold_copy(const Tensor& to, const Tensor& from, const Stream& stream) override;
  void hold_fill(const Tensor& to, unsigned char value, const Stream& stream) override;
  void hold_event(const char* name, const Stream& stream, std::function<void(const Stream&)> f) override;
  Buffer allocate(StreamImpl& stream, std::size_t bytes) override;
  void keep(const std::shared_ptr<const void>& memory, const void* address) override;

  // Memory of its temporaries and of workspaces, by the stream that the work is queued on; each arena is shared with
  // other recordings of that stream.
  std::vector<std::pair<StreamImpl*, std::shared_ptr<Arena>>> arenas;
  std::shared_ptr<Arena> trace;  // names its temporaries
  GraphOwned owned;              // by the graph, as far as the work has been queued
  bool has_collectives = false;
  std::size_t largest_workspace = 0;  // that an op requested, in bytes

 private:
  void queue(std::vector<HeldOp>& ops);
  void settle_memory_of_other_streams(const std::vector<HeldOp>& ops);
  bool has_branches() const;
  std::shared_ptr<StreamImpl> open_side_stream(const std::vector<HeldOp>& ops, const Values& values, Homes& homes,
                                               std::vector<Branch>& branches);
  Buffer lay_out(std::vector<HeldOp>& ops, std::vector<Branch>& branches, std::shared_ptr<StreamImpl>& side_stream);

  Rewrite rewrite_;
  std::vector<HeldOp> held_;
  bool is_shared_ = false;
  std::exception_ptr failure_;
};

// Call before queueing work that a recording cannot hold back. Queues what is held, and adds a node for the work.
inline void record_opaque_op(std::string op, std::vector<Tensor> writes = {}, std::vector<Tensor> reads = {}) {
  if (!Recording::holds()) return;
  Recording::current()->flush();
  for (auto* const tensors : {&writes, &reads}) {
    for (Tensor& tensor : *tensors) tensor = tensor.settled();
  }
  Program::Node node(std::move(op), std::move(writes), std::move(reads));
  node.is_op = false;
  Recording::current()->owned.program.add(std::move(node));
  Recording::current()->owned.calls.push_back(nullptr);
}

}  // namespace giro::detail
