#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <giro/runtime/state.h>
#include <giro/runtime/stream.h>

namespace giro {

class Program;

namespace detail {
class GraphImpl;
class GraphRecorder;
struct Recording;
}  // namespace detail

struct RecordOptions {
  std::string name = "a recording";  // for programs and errors
  std::vector<Leaf> leaves = {};     // the names of memory, for the program
  const State* state = nullptr;      // watched by the owner of the graph, which keeps the others
};

// Work recorded once and replayed many times: a CUDA graph, or on the CPU a list of calls. Holds the arena of
// the temporaries that its work uses, the library handles, the graphs that were replayed in it, and the memory of the
// states and of the values (nn::Var) that `body` has used, but for RecordOptions::state; every other address that it
// touches must outlive it. Move-only; using what was moved from is an Error(invalid_argument).
//
// All recordings of one stream take their temporaries from one arena, so those of a graph are overwritten by the next
// one's: such graphs may be replayed on any streams, but only one after the other.
class Graph {
 public:
  // Runs `body`, which queues work on `stream`; that work is recorded and not executed. Queueing work on any other
  // stream is an error of the call that does it, unless that stream has waited for an event of this recording. If
  // `body` throws, the recording is dropped and the exception passes through. Errors: device, invalid_argument (nested
  // recording), out_of_memory, which says what the recording needs.
  static Graph record(const Stream& stream, const std::function<void()>& body, const RecordOptions& options = {});

  // The work of `parts`, one after the other, as one graph: a part may be there any number of times. What they need
  // lives on with it; the parts themselves may go. Errors: device_mismatch, invalid_argument for no parts.
  static Graph sequence(const std::vector<const Graph*>& parts);

  Graph(Graph&&) noexcept;
  Graph& operator=(Graph&&) noexcept;
  ~Graph();

  // Queues the recorded work on a stream of the same device, `times` in a row: on a GPU as few launches, for graphs
  // of 2, 4, 8, ... 128 repetitions are made where they are first asked for. Errors: device_mismatch, device,
  // invalid_argument for a negative number.
  //
  // With GIRO_BLOCKING=1 in the environment when it was recorded, a replay runs op by op, with a wait after each, and
  // an error names the op; as a whole, with one wait, where it holds work that is no op of giro's.
  void replay(const Stream& stream, std::int64_t times = 1) const;

  // Makes at once what any replay of up to `times` in a row needs.
  void prepare(std::int64_t times) const;

  // Seconds that each op of program() takes by itself on the stream's device, nothing for what is no op of giro's. Each
  // is run some tens of times, in their order; so their temporaries have to hold what a replay leaves there, and what
  // they write is not what a replay would write. `reset` is called before each op and may queue work. Waits for the
  // stream. Errors as of replay.
  std::vector<std::optional<double>> op_times(const Stream& stream, const std::function<void()>& reset = {}) const;
  // Seconds that the device takes for a replay, as the mean of `times` in a row; waits for it. Errors as of replay.
  double replay_time(const Stream& stream, std::int64_t times) const;

  // Whether each state that `body` has used is still where it was then, but for RecordOptions::state. If one was moved,
  // replaced or destroyed, during the recording or since, `body` would do something else now; a replay goes on using
  // the memory of then.
  bool states_are_there() const;
  // These states, as long as they are there.
  std::vector<const State*> states() const;

  const Program& program() const;  // its ops
  Device device() const;
  std::size_t num_nodes() const;     // of a sequence, those of all its parts
  std::size_t longest_path() const;  // of nodes that run one after the other
  std::size_t arena_bytes() const;   // of the arenas that its work uses, which other recordings may use as well

 private:
  friend class detail::GraphRecorder;
  explicit Graph(std::shared_ptr<detail::GraphImpl> impl);
  detail::GraphImpl& impl() const;
  void check_replay(const Stream& stream) const;
  void append_to(detail::Recording& recording) const;
  void replay_blocking(const Stream& stream, std::int64_t times) const;
  std::shared_ptr<detail::GraphImpl> impl_;
};

// While one lives, the recording that this thread makes is set aside: work that the thread queues runs at once, on
// streams that take no part in the recording, and no replay repeats it. For preparing what a recording needs.
class OutsideRecording {
 public:
  OutsideRecording() noexcept;
  ~OutsideRecording();
  OutsideRecording(const OutsideRecording&) = delete;
  OutsideRecording& operator=(const OutsideRecording&) = delete;

 private:
  detail::Recording* set_aside_;
};

}  // namespace giro
