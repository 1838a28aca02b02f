#include <giro/runtime/graph.h>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include <giro/runtime/error.h>
#include <giro/runtime/span.h>

#include "runtime/internal/arena.h"
#include "runtime/internal/backend.h"

namespace giro {

Graph Graph::record(const Stream& stream, const std::function<void()>& body, const detail::Rewriter* rewriter) {
  detail::StreamImpl& impl = stream.impl();
  detail::Recording recording(impl, rewriter);
  impl.begin_recording();
  try {
    body();
    recording.flush();
    std::shared_ptr<detail::GraphImpl> recorded = impl.end_recording();
    recording.trace->drop_unpinned();
    recorded->owned.arenas = {std::move(recording.trace)};
    for (auto& [used_by, arena] : recording.arenas) recorded->owned.arenas.push_back(std::move(arena));
    std::move(recording.kept.begin(), recording.kept.end(), std::back_inserter(recorded->owned.kept));
    recorded->owned.peers = std::move(recording.peers);
    recorded->owned.program = std::move(recording.program);
    return Graph(std::move(recorded));
  } catch (...) {
    impl.abandon_recording();
    throw;
  }
}

Graph Graph::sequence(const std::vector<const Graph*>& parts) {
  if (parts.empty()) {
    throw Error(ErrorCode::invalid_argument, "a sequence of graphs needs at least one part, found none");
  }
  std::vector<std::shared_ptr<detail::GraphImpl>> impls;
  for (const Graph* part : parts) {
    if (part == nullptr) throw Error(ErrorCode::invalid_argument, "a sequence of graphs: a part is null");
    if (part->device() != parts.front()->device()) {
      throw Error(ErrorCode::device_mismatch,
                  fmt::format("a sequence of graphs: the first part was recorded on {}, part {} on {}",
                              to_string(parts.front()->device()), impls.size(), to_string(part->device())));
    }
    impls.push_back(part->impl_);
  }
  Graph result(parts.front()->device().is_cuda() ? cuda::create_sequence(impls) : cpu::create_sequence(impls));
  detail::GraphOwned& owned = result.impl_->owned;
  for (const auto& part : impls) {
    const auto& [arenas, kept, peers, program] = part->owned;
    owned.arenas.insert(owned.arenas.end(), arenas.begin(), arenas.end());
    owned.kept.insert(owned.kept.end(), kept.begin(), kept.end());
    owned.peers.add(peers);
    owned.program.append(program);
  }
  const auto drop_repeated = [](auto& pointers) {
    std::sort(pointers.begin(), pointers.end());
    pointers.erase(std::unique(pointers.begin(), pointers.end()), pointers.end());
  };
  drop_repeated(owned.arenas);
  drop_repeated(owned.kept);
  return result;
}

Graph::Graph(std::shared_ptr<detail::GraphImpl> impl) : impl_(std::move(impl)) {}
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;
Graph::~Graph() = default;

detail::GraphImpl& Graph::impl() const {
  if (impl_ == nullptr) throw Error(ErrorCode::invalid_argument, "this graph was moved from");
  return *impl_;
}

void Graph::replay(const Stream& stream, std::int64_t times) const {
  detail::GraphImpl& graph = impl();
  if (times < 0) {
    throw Error(ErrorCode::invalid_argument, fmt::format("replay: {} times, expected at least 0", times));
  }
  if (stream.device() != graph.device) {
    throw Error(ErrorCode::device_mismatch, fmt::format("a graph recorded on {} cannot be replayed on {}",
                                                        to_string(graph.device), to_string(stream.device())));
  }
  stream.impl().check_usable("replay");
  if (stream.is_recording()) detail::Recording::current()->flush();
  const Span span("launch", "replay", "times", times);
  graph.owned.peers.check();  // work that waits for those that have failed would never end
  graph.replay(stream.impl(), times);
  if (stream.is_recording()) {
    detail::Recording::current()->kept.push_back(impl_);
    detail::Recording::current()->peers.add(graph.owned.peers);
    detail::Recording::current()->program.append(graph.owned.program);
  } else {
    stream.impl().peers.add(graph.owned.peers);
  }
}

void Graph::prepare(std::int64_t times) const { impl().prepare(times); }
const Program& Graph::program() const { return impl().owned.program; }
Device Graph::device() const { return impl().device; }
std::size_t Graph::num_nodes() const { return impl().num_nodes(); }
std::size_t Graph::longest_path() const { return impl().longest_path(); }

std::size_t Graph::arena_bytes() const {
  const auto& arenas = impl().owned.arenas;
  return std::accumulate(arenas.begin(), arenas.end(), std::size_t{0},
                         [](std::size_t sum, const auto& arena) { return sum + arena->reserved_bytes(); });
}

OutsideRecording::OutsideRecording() noexcept : set_aside_(detail::Recording::exchange_current(nullptr)) {}
OutsideRecording::~OutsideRecording() { detail::Recording::exchange_current(set_aside_); }

}  // namespace giro
