#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <giro/runtime/not_copied.h>
#include <giro/runtime/state.h>
#include <giro/runtime/stream.h>

namespace giro {

class Program;

namespace detail {
class GraphImpl;
struct Recording;
class StreamRecording;
}  // namespace detail

struct RecordOptions {
  std::string name = "a recording";  // for programs and errors
  std::vector<Leaf> leaves = {};     // name the memory in the program
  const State* state = nullptr;      // watched by the graph's owner; the graph keeps all others alive
};

// Work recorded once and replayed many times: a CUDA graph, or on the CPU a list of calls. It keeps alive the arena of
// its temporaries, the library handles, the graphs replayed in it, and the memory of the states and values (nn::Var)
// that `body` used, except RecordOptions::state. Every other address it uses must outlive it. Move-only; using a
// moved-from graph is an Error(invalid_argument).
//
// All recordings of one stream take their temporaries from one arena, so one graph overwrites the temporaries of
// another: such graphs may be replayed on any streams, but only one after the other.
class Graph {
 public:
  // Runs `body`, which queues work on `stream`; that work is recorded and not executed. A call that queues work on any
  // other stream fails, unless that stream has waited for an event of this recording. If `body` throws, the recording
  // is dropped and the exception passes through. Errors: device, invalid_argument (nested recording), out_of_memory,
  // reporting what the recording needs.
  static Graph record(const Stream& stream, const std::function<void()>& body, const RecordOptions& options = {});

  // The work of `parts`, one after the other, as one graph; a part may occur several times. The result keeps what the
  // parts need, so the parts may be destroyed. Errors: device_mismatch, invalid_argument for no parts.
  static Graph sequence(const std::vector<const Graph*>& parts);

  Graph(Graph&&) noexcept = default;
  Graph& operator=(Graph&&) noexcept = default;

  // Queues the recorded work on a stream of the same device, `times` in a row. On a GPU this takes few launches: graphs
  // of 2, 4, 8, ... 128 repetitions are created on first use. Errors: device_mismatch, device, invalid_argument for a
  // negative number.
  //
  // If GIRO_BLOCKING=1 was in the environment during recording, a replay runs op by op and waits after each, so that an
  // error names the op. A graph with work that is not an op of giro runs as a whole, with one wait.
  void replay(const Stream& stream, std::int64_t times = 1) const;

  // Creates everything now that replays of up to `times` in a row need.
  void prepare(std::int64_t times) const;

  // Seconds that each op of program() takes by itself on the stream's device; no value for work that is not an op of
  // giro. Each op runs a few dozen times, in program order. The temporaries must still hold the values that a replay
  // left there; the ops do not write the values that a replay would write. `reset` is called before each op and may
  // queue work. Waits for the stream. Errors as for replay.
  std::vector<std::optional<double>> op_times(const Stream& stream, const std::function<void()>& reset = {}) const;
  // Mean seconds that the device takes for a replay, over `times` in a row; waits for them. Errors as for replay.
  double replay_time(const Stream& stream, std::int64_t times) const;

  // Whether each state that `body` used, except RecordOptions::state, is still where it was then. If one was moved,
  // replaced or destroyed, during the recording or since, `body` would now do something different, while a replay still
  // uses the old memory.
  bool states_are_valid() const;
  // Those of these states that are still there.
  std::vector<const State*> states() const;

  const Program& program() const;  // its ops
  Device device() const;
  std::size_t num_nodes() const;     // for a sequence, of all its parts
  std::size_t longest_path() const;  // in nodes that run one after the other
  std::size_t arena_bytes() const;   // of the arenas its work uses, which other recordings may share

 private:
  friend struct detail::Recording;
  explicit Graph(std::shared_ptr<detail::GraphImpl> impl);
  detail::GraphImpl& impl() const;
  void check_replay(const Stream& stream) const;
  void replay_blocking(const Stream& stream, std::int64_t times) const;
  std::shared_ptr<detail::GraphImpl> impl_;
};

// While an instance lives, the recording of this thread is suspended: work that the thread queues runs at once, on
// streams outside the recording, and is not replayed. For preparing what a recording needs.
class OutsideRecording : detail::NotCopied {
 public:
  OutsideRecording() noexcept;
  ~OutsideRecording();

 private:
  detail::StreamRecording* set_aside_;
};

}  // namespace giro
