#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <vector>

#include <giro/kernels/nn/partitioner.h>
#include <giro/loop/data/batch.h>
#include <giro/loop/log/log_ring.h>
#include <giro/loop/log/logs.h>
#include <giro/loop/step/broadcasts.h>
#include <giro/loop/step/input_ring.h>
#include <giro/runtime/program/graph.h>
#include <giro/runtime/program/program.h>
#include <giro/runtime/state.h>

namespace giro {

// Bytes that a recorded step needs on its device, besides the state and a resident dataset.
struct StepMemory {
  std::size_t inputs = 0;       // the batches in flight
  std::size_t temporaries = 0;  // as planned: the peak in use, plus gaps (Program::memory)
  // For temporaries and workspaces. Shared by all recordings of a state's steps, with the size the largest needs.
  std::size_t reserved = 0;

  std::size_t bytes() const noexcept { return inputs + reserved; }
};

namespace detail {

// Host-side values of any type that select a recording.
struct StaticsView {
  const void* value;
  bool (*equal)(const void*, const void*);
  std::shared_ptr<const void> (*copy)(const void*);
};

// The arguments of a step's call.
struct StepCall {
  const State& state;
  const Batch& batch;
  const Broadcasts& broadcasts;
  StaticsView statics;
  const Partitioner* partitioner = nullptr;  // the state's, if it has one
};

// Runs the user's function on tensors that lie on the state's device.
using StepBody = std::function<Logs(const Batch&, const Broadcasts&)>;

// "the step of train.cpp:12"
std::string name_of_step(const std::source_location& where);

// A step for one state at fixed addresses, one batch shape (and part of a shared batch), one set of broadcast names and
// one value of the statics: the graph, its inputs and its logs. An eager step has no graph and calls the function each
// time. Only one thread at a time may use it, as with its state.
class StepRecording {
 public:
  enum class Mode { recorded, eager };
  // Errors: those of the ops, if it is recorded; device_mismatch for a batch that lies on another device than the
  // state; invalid_argument for a state that was moved from.
  // `where`: the line of the user's program that made the step, for its name. `is_checked`: the state's ranks need not
  // compare what they do in its first call.
  StepRecording(const StepCall& call, const StepBody& body, Mode mode, const std::source_location& where,
                bool is_checked = true);

  // As Step::program, Step::memory and Step::profile.
  static Program program_of(const StepCall& call, const StepBody& body, const std::source_location& where);
  static StepMemory memory_of(const StepCall& call, const StepBody& body, const std::source_location& where);
  static Program profile_of(const StepCall& call, const StepBody& body, const std::source_location& where);

  bool matches(const StepCall& call) const;
  // Whether it has failed, or its dataset or a state it uses is gone. It is then never called again.
  bool expired() const;

  bool is_eager() const noexcept { return !graph_ || calls_function_; }

  // Whether the ranks of this state have compared what they do in this recording, or need not.
  bool is_checked(const State& state) const noexcept { return state.identity().get() == state_id_ && is_checked_; }
  // Whether they have to compare it before the first call. Only if it sends something: any other step may be called by
  // some ranks alone.
  bool must_compare_ranks() const noexcept { return !is_checked_ && sends_; }
  // Waits for all ranks. Error(communication) if one of them computes or logs something else than rank 0.
  void compare_ranks();

  // Queues one call at once. Waits only if the rings are full.
  Logs call(const StepCall& call, const StepBody& body);

  // The functions below do the same in parts, for many calls of a recorded step. Whether there is room for the input
  // and the logs of the next call. If not, earlier calls have to run, and their logs have to be read.
  bool has_room() const;
  // How many calls may be held back for one launch.
  std::int64_t max_held() const;
  // Writes the input of the next call; its logs will be the next row of logs().
  void prepare(const StepCall& call);
  // Queues what has to precede the launch of the prepared calls, by graph() or as parts of a sequence.
  void flush() { inputs_.flush(); }
  const Graph& graph() const { return *graph_; }
  // The graph of calls of several recordings in sequence, this one's first; made once.
  const Graph& sequence(std::span<StepRecording* const> parts);

  const std::shared_ptr<LogRing>& logs() const noexcept { return logs_; }
  const Stream& stream() const noexcept { return stream_; }
  // Call this after an error: it is then unknown how far the device got.
  void set_failed() noexcept { failed_ = true; }

 private:
  struct Calls;
  std::vector<Leaf> names(const State& state) const;
  Program program(const State& state) const;
  double time_replay(const StepCall& call);
  bool has_slot() const;
  Logs run_body(const StepBody& body);
  void describe(const Logs& logs);

  std::weak_ptr<const void> state_;
  const void* state_id_;  // its address; no other object takes it while the weak pointer lives
  std::weak_ptr<const ResidentRows> resident_rows_;
  const void* resident_rows_id_;
  std::int64_t rows_;
  const std::optional<BatchPart> part_;
  const Partitioner* const partitioner_;  // lives as long as the state
  bool is_checked_;
  bool sends_ = false;         // something to the other ranks
  std::string ops_, entries_;  // a line for each; empty once compared
  std::shared_ptr<const void> statics_;
  Stream stream_;
  Buffer call_storage_;
  Tensor call_;  // i64 scalar on the device: calls that have run
  InputRing inputs_;
  std::int64_t prepared_ = 0;  // calls
  std::shared_ptr<LogRing> logs_;
  std::optional<Graph> graph_;
  const bool is_blocking_;        // whether GIRO_BLOCKING is set
  bool calls_function_ = false;   // whether it calls the function each time although it has a graph
  std::shared_ptr<Calls> calls_;  // for error messages
  const std::uint64_t id_;
  std::map<std::vector<std::uint64_t>, Graph> sequences_;  // by their parts' ids
  std::atomic<bool> failed_ = false;  // other threads read it when they look up a recording for their states
};

}  // namespace detail
}  // namespace giro
