#include "runtime/cuda/graph.h"

#include <cmath>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/cuda/check.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/stream.h"
#include "runtime/trace_recorder.h"

namespace giro::cuda {
namespace {

using detail::TraceRecorder;

// The most launches of a stream whose times are not known yet; this limits how far the host can run ahead of the
// device.
constexpr std::size_t kMaxInFlight = 256;

// How long launches take on the device, for the running trace. A pair of events around each launch measures it. One
// more event at a stream's first launch, which the host waits for, relates the device's time to the host's.
class LaunchTimes {
 public:
  static LaunchTimes& instance() {
    static LaunchTimes times;
    return times;
  }

  // Calls launch(), which launches a graph of `times` repetitions on the stream.
  template <class F>
  void time(detail::StreamImpl& stream, std::int64_t times, F&& launch) {
    Event begin = detail::is_watched() ? begin_of_launch(stream) : Event();
    launch();
    if (begin != nullptr) add(stream, std::move(begin), times);
  }
  // Adds the launches that are not in the trace yet, waiting for all of them, and forgets the streams. Error(device).
  void finish() {
    const std::lock_guard lock(mutex_);
    auto tracks = std::exchange(tracks_, {});  // dropped even if the device has failed
    for (auto& [stream, track] : tracks) {
      while (!track.launches.empty()) add_first(track);
    }
  }

 private:
  using Event = Handle<cudaEvent_t, cudaEventDestroy>;
  struct Launch {
    Event begin, end;
    std::int64_t times;
  };
  struct Track {
    std::string name;
    std::deque<Launch> launches = {};  // not added yet
    Event latest = {};                 // a point on the device,
    double latest_time = 0;            // and when that was, in nanoseconds of the trace's clock
    std::vector<Event> spare = {};
  };

  // Null unless a trace is running and the launch happens now, rather than being recorded.
  Event begin_of_launch(detail::StreamImpl& stream) {
    if (stream.is_recording() || !TraceRecorder::instance().is_recording()) return {};
    const std::lock_guard lock(mutex_);
    if (!TraceRecorder::instance().is_recording()) return {};  // finish() would miss the launch
    return recorded(stream, track_of(stream));
  }
  void add(detail::StreamImpl& stream, Event begin, std::int64_t times) {
    const std::lock_guard lock(mutex_);
    const auto found = tracks_.find(&stream);
    if (found == tracks_.end()) return;  // the trace has ended meanwhile
    Track& track = found->second;
    track.launches.push_back({std::move(begin), recorded(stream, track), times});
    if (track.launches.size() > kMaxInFlight) add_first(track);
  }
  Track& track_of(detail::StreamImpl& stream) {
    if (const auto found = tracks_.find(&stream); found != tracks_.end()) return found->second;
    Track track{.name = to_string(stream.device) + ", stream " + std::to_string(tracks_.size() + 1)};
    track.latest = recorded(stream, track);
    check(cudaEventSynchronize(track.latest), "cudaEventSynchronize");
    track.latest_time = static_cast<double>(TraceRecorder::now());
    return tracks_.emplace(&stream, std::move(track)).first->second;
  }
  static Event recorded(detail::StreamImpl& stream, Track& track) {
    Event event;
    if (track.spare.empty()) {
      check(cudaEventCreateWithFlags(event.out(), cudaEventDefault), "cudaEventCreateWithFlags");
    } else {
      event = std::move(track.spare.back());
      track.spare.pop_back();
    }
    check(cudaEventRecord(event, cuda_stream(stream).handle()), "cudaEventRecord");
    return event;
  }
  // Adds up times from event to event, since CUDA returns the time between two events as a float.
  void add_first(Track& track) {
    Launch launch = std::move(track.launches.front());
    track.launches.pop_front();
    check(cudaEventSynchronize(launch.end), "cudaEventSynchronize");
    float until_begin = 0, until_end = 0;
    check(cudaEventElapsedTime(&until_begin, track.latest, launch.begin), "cudaEventElapsedTime");
    check(cudaEventElapsedTime(&until_end, launch.begin, launch.end), "cudaEventElapsedTime");
    const double begin = track.latest_time + 1e6 * static_cast<double>(until_begin);
    const double end = begin + 1e6 * static_cast<double>(until_end);
    TraceRecorder::instance().add(track.name, "device", "launch", std::llround(begin), std::llround(end), "times",
                                  launch.times);
    track.spare.push_back(std::move(launch.begin));
    track.spare.push_back(std::exchange(track.latest, std::move(launch.end)));
    track.latest_time = end;
  }

  std::mutex mutex_;
  std::map<const detail::StreamImpl*, Track> tracks_;
};

// A graph with `graphs` as children, one after the other.
OwnedGraph sequence_of(const std::vector<cudaGraph_t>& graphs) {
  OwnedGraph row;
  check(cudaGraphCreate(row.out(), 0), "cudaGraphCreate");
  cudaGraphNode_t before = nullptr;
  for (const cudaGraph_t graph : graphs) {
    cudaGraphNode_t node = nullptr;
    check(cudaGraphAddChildGraphNode(&node, row, &before, before == nullptr ? 0 : 1, graph),
          "cudaGraphAddChildGraphNode");
    before = node;
  }
  return row;
}

// In nodes.
std::size_t longest_path(cudaGraph_t graph, std::size_t num_nodes) {
  std::size_t num_edges = 0;
  check(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &num_edges), "cudaGraphGetEdges");
  if (num_edges == 0) return num_nodes == 0 ? 0 : 1;
  std::vector<cudaGraphNode_t> from(num_edges), to(num_edges);
  std::vector<cudaGraphEdgeData> data(num_edges);
  check(cudaGraphGetEdges(graph, from.data(), to.data(), data.data(), &num_edges), "cudaGraphGetEdges");
  std::unordered_map<cudaGraphNode_t, std::size_t> edges_before;
  std::unordered_multimap<cudaGraphNode_t, cudaGraphNode_t> followers;
  for (std::size_t i = 0; i < num_edges; ++i) {
    followers.emplace(from[i], to[i]);
    edges_before[from[i]] += 0;
    edges_before[to[i]] += 1;
  }
  std::vector<cudaGraphNode_t> ready;
  for (const auto& [node, edges] : edges_before) {
    if (edges == 0) ready.push_back(node);
  }
  // In each round, the nodes that have all nodes before them in earlier rounds.
  std::size_t rounds = 0;
  for (; !ready.empty(); ++rounds) {
    for (const cudaGraphNode_t node : std::exchange(ready, {})) {
      const auto [first, last] = followers.equal_range(node);
      for (auto follower = first; follower != last; ++follower) {
        if (--edges_before[follower->second] == 0) ready.push_back(follower->second);
      }
    }
  }
  return rounds;
}

}  // namespace

CudaGraph::CudaGraph(Device device, OwnedGraph graph, std::size_t num_nodes, std::size_t longest_path)
    : GraphImpl(device), graph_(std::move(graph)), num_nodes_(num_nodes), longest_path_(longest_path) {
  repeated_executable(0);
}

void CudaGraph::replay(detail::StreamImpl& stream, std::int64_t times) {
  const cudaStream_t handle = cuda_stream(stream).handle();
  for (std::size_t number = executables_.size(); number-- > 0;) {
    const std::int64_t repetitions = std::int64_t{1} << number;
    for (; times >= repetitions; times -= repetitions) {
      const cudaGraphExec_t executable = repeated_executable(number);
      LaunchTimes::instance().time(stream, repetitions,
                                   [&] { check(cudaGraphLaunch(executable, handle), "cudaGraphLaunch"); });
    }
  }
}

void CudaGraph::prepare(std::int64_t times) {
  make_current(device);
  for (std::size_t number = 0; number < executables_.size() && std::int64_t{1} << number <= times; ++number)
    repeated_executable(number);
}

cudaGraphExec_t CudaGraph::repeated_executable(std::size_t number) {
  auto& executable = executables_[number];
  if (executable != nullptr) return executable;
  if (number == 0) {
    check(cudaGraphInstantiate(executable.out(), graph_, 0), "cudaGraphInstantiate");
  } else {
    const OwnedGraph repeated = sequence_of(std::vector<cudaGraph_t>(std::size_t{1} << number, graph_));
    check(cudaGraphInstantiate(executable.out(), repeated, 0), "cudaGraphInstantiate");
  }
  return executable;
}

std::shared_ptr<CudaGraph> recorded_graph(Device device, OwnedGraph graph) {
  std::size_t num_nodes = 0;
  check(cudaGraphGetNodes(graph, nullptr, &num_nodes), "cudaGraphGetNodes");
  const std::size_t longest = longest_path(graph, num_nodes);
  return std::make_shared<CudaGraph>(device, std::move(graph), num_nodes, longest);
}

std::shared_ptr<detail::GraphImpl> create_sequence(const std::vector<std::shared_ptr<detail::GraphImpl>>& parts) {
  make_current(parts.front()->device);
  std::vector<cudaGraph_t> graphs;
  std::size_t num_nodes = 0, longest_path = 0;
  for (const auto& part : parts) {
    graphs.push_back(static_cast<const CudaGraph&>(*part).graph());
    num_nodes += part->num_nodes();
    longest_path += part->longest_path();
  }
  return std::make_shared<CudaGraph>(parts.front()->device, sequence_of(graphs), num_nodes, longest_path);
}

void finish_launch_times() { LaunchTimes::instance().finish(); }

}  // namespace giro::cuda
