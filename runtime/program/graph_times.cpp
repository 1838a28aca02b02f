// Times graphs and their ops.

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include <giro/runtime/program/graph.h>

#include "runtime/arena.h"
#include "runtime/backend.h"
#include "runtime/program/graph_impl.h"
#include "runtime/throw_error.h"

namespace giro {
namespace {

constexpr int kRounds = 3;
constexpr double kRoundSeconds = 1e-3;  // target time of one round of runs of an op,
constexpr double kMaxRuns = 64;         // but at most this many runs
constexpr int kRunsOfGraph = 24;

// While an instance lives, recordings take their workspaces from a separate arena, so that the temporaries of the timed
// graph stay as they are.
class OwnArena : detail::NotCopied {
 public:
  explicit OwnArena(detail::StreamImpl& stream) : stream_(stream), set_aside_(std::exchange(stream.recordings, {})) {}
  ~OwnArena() { stream_.recordings = std::move(set_aside_); }

 private:
  detail::StreamImpl& stream_;
  std::weak_ptr<Arena> set_aside_;
};

// The fastest of several rounds: anything slower is noise.
template <class Round>
double fastest(Round&& round) {
  double seconds = round();
  for (int i = 1; i < kRounds; ++i) seconds = std::min(seconds, round());
  return seconds;
}

// On a GPU the runs form a graph, so that launching costs no more than in the step.
double time_of(const detail::OpCall& call, const Program::Node& node, const Stream& stream) {
  detail::StreamImpl& impl = stream.impl();
  const auto run = [&](int times) {
    for (int i = 0; i < times; ++i) detail::emit(call, node, stream);
  };
  if (stream.device().is_cpu()) {
    const double once = impl.time([&] { run(1); });
    const int times = static_cast<int>(std::clamp(std::ceil(kRoundSeconds / std::max(once, 1e-9)), 1.0, kMaxRuns));
    return fastest([&] { return impl.time([&] { run(times); }) / times; });
  }
  const OwnArena arena(impl);
  const Graph graph = Graph::record(stream, [&] { run(kRunsOfGraph); });
  graph.replay(stream);
  return fastest([&] { return graph.replay_time(stream, 1) / kRunsOfGraph; });
}

}  // namespace

std::vector<std::optional<double>> Graph::op_times(const Stream& stream, const std::function<void()>& reset) const {
  check_replay(stream);
  const detail::GraphOwned& owned = impl().owned;
  std::vector<std::optional<double>> seconds(owned.calls.size());
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    if (owned.calls[i] == nullptr) continue;
    if (reset) reset();
    seconds[i] = time_of(*owned.calls[i], owned.program.nodes()[i], stream);
  }
  stream.impl().faults.forget();  // an op run alone may read another op's leftovers as its input
  return seconds;
}

double Graph::replay_time(const Stream& stream, std::int64_t times) const {
  if (times < 1) throw_invalid("replay_time: {} times, expected at least 1", times);
  prepare(times);
  return stream.impl().time([&] { replay(stream, times); }) / static_cast<double>(times);
}

}  // namespace giro
