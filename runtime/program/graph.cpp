#include <giro/runtime/program/graph.h>

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include <giro/runtime/error.h>
#include <giro/runtime/span.h>

#include "runtime/arena.h"
#include "runtime/backend.h"
#include "runtime/call_site.h"
#include "runtime/op_by_op.h"
#include "runtime/program/graph_impl.h"
#include "runtime/program/memory_report.h"
#include "runtime/program/recording.h"
#include "runtime/throw_error.h"

namespace giro {
namespace {

// The memory that a replay changes, without its temporaries.
std::vector<detail::MemoryRange> memory_written(const detail::GraphOwned& graph) {
  std::vector<detail::MemoryRange> ranges;
  for (const Program::Node& node : graph.program.nodes()) {
    for (const Tensor& write : node.writes) {
      const auto holds = [&](const auto& arena) { return arena->holds(write.raw()); };
      if (write.count() == 0 || std::ranges::any_of(graph.arenas, holds)) continue;
      const auto* const begin = static_cast<const std::byte*>(write.raw());
      ranges.emplace_back(begin, begin + write.bytes());
    }
  }
  std::ranges::sort(ranges);
  std::vector<detail::MemoryRange> joined;
  for (const auto& range : ranges) {
    if (joined.empty() || joined.back().second < range.first) {
      joined.push_back(range);
    } else {
      joined.back().second = std::max(joined.back().second, range.second);
    }
  }
  return joined;
}

// Replays a graph of ops only, with a wait after each. `number` is the number of the replay, for errors.
void replay_op_by_op(const detail::GraphOwned& graph, const Stream& stream, std::int64_t number) {
  const Program& program = graph.program;
  for (std::size_t i = 0; i < graph.calls.size(); ++i) {
    try {
      detail::emit(*graph.calls[i], program.nodes()[i], stream);
      stream.synchronize();
    } catch (const Error& error) {
      const auto site = detail::CallSite::of_node({});
      throw Error(error.code(),
                  fmt::format("{}; op {} of {} in call {} of {}: {}", error.what(), i + 1, graph.calls.size(), number,
                              program.name(), program.describe(i)),
                  error.where());
    }
  }
}

}  // namespace

void detail::GraphOwned::add_ops(const GraphOwned& part) {
  peers.add(part.peers);
  program.append(part.program);
  calls.insert(calls.end(), part.calls.begin(), part.calls.end());
}

Graph Graph::record(const Stream& stream, const std::function<void()>& body, const RecordOptions& options) {
  return detail::Recording::record(stream, body, options, {});
}

Graph detail::Recording::record(const Stream& stream, const std::function<void()>& body, const RecordOptions& options,
                                const Rewrite& rewrite) {
  detail::StreamImpl& impl = stream.impl();
  const detail::StateIdentity* const main = options.state != nullptr ? options.state->identity().get() : nullptr;
  detail::Recording recording(impl, rewrite);
  impl.begin_recording();
  try {
    body();
    recording.flush();
    std::shared_ptr<detail::GraphImpl> recorded = impl.end_recording();
    detail::GraphOwned& owned = recording.owned;
    owned.arenas = {std::move(recording.trace)};
    for (auto& [used_by, arena] : recording.arenas) owned.arenas.push_back(std::move(arena));
    owned.kept.insert(owned.kept.begin(), recorded->owned.kept.begin(), recorded->owned.kept.end());
    owned.states = recording.states.watch(recording.id, main, owned.kept);
    owned.program.set_name(options.name);
    owned.program.set_names(options.leaves);
    owned.writes = memory_written(owned);
    owned.is_blocking = detail::wants_op_by_op();
    recorded->owned = std::move(owned);
    return Graph(std::move(recorded));
  } catch (const Error& error) {
    impl.abandon_recording();
    if (error.code() != ErrorCode::out_of_memory) throw;
    throw with_memory_report(error, recording, options.name);
  } catch (...) {
    impl.abandon_recording();
    throw;
  }
}

void detail::Recording::dry_run(const Stream& stream, const std::function<void()>& body) {
  const OutsideRecording outside;
  detail::Recording recording(stream.impl(), {});
  recording.is_dry_ = true;
  try {
    body();
  } catch (...) {
    stream.impl().abandon_recording();
    throw;
  }
  stream.impl().abandon_recording();
}

Graph Graph::sequence(const std::vector<const Graph*>& parts) {
  if (parts.empty()) throw_invalid("a sequence of graphs needs at least one part, found none");
  std::vector<std::shared_ptr<detail::GraphImpl>> impls;
  for (const Graph* part : parts) {
    if (part == nullptr) throw_invalid("a sequence of graphs: a part is null");
    if (part->device() != parts.front()->device()) {
      throw_error(ErrorCode::device_mismatch, "a sequence of graphs: the first part was recorded on {}, part {} on {}",
                  to_string(parts.front()->device()), impls.size(), to_string(part->device()));
    }
    impls.push_back(part->impl_);
  }
  Graph result(parts.front()->device().is_cuda() ? cuda::create_sequence(impls) : cpu::create_sequence(impls));
  detail::GraphOwned& owned = result.impl_->owned;
  for (const auto& part : impls) {
    const detail::GraphOwned& more = part->owned;
    owned.arenas.insert(owned.arenas.end(), more.arenas.begin(), more.arenas.end());
    owned.kept.insert(owned.kept.end(), more.kept.begin(), more.kept.end());
    owned.states.insert(owned.states.end(), more.states.begin(), more.states.end());
    owned.writes.insert(owned.writes.end(), more.writes.begin(), more.writes.end());
    owned.is_blocking = owned.is_blocking || more.is_blocking;
    owned.add_ops(more);
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

detail::GraphImpl& Graph::impl() const {
  if (impl_ == nullptr) throw_invalid("this graph was moved from");
  return *impl_;
}

void Graph::check_replay(const Stream& stream) const {
  const detail::GraphImpl& graph = impl();
  if (stream.device() != graph.device) {
    throw_error(ErrorCode::device_mismatch, "a graph recorded on {} cannot be replayed on {}", to_string(graph.device),
                to_string(stream.device()));
  }
  stream.impl().check_usable("replay");
}

void Graph::replay(const Stream& stream, std::int64_t times) const {
  detail::GraphImpl& graph = impl();
  if (times < 0) throw_invalid("replay: {} times, expected at least 0", times);
  check_replay(stream);
  if (times > 0 && !stream.impl().held_values.is_empty()) {
    for (const auto& written : graph.owned.writes) stream.impl().held_values.before_write(written, stream);
  }
  if (stream.is_recording()) detail::Recording::current()->flush();
  const Span span("launch", "replay", "times", times);
  graph.owned.peers.check();  // work that waits for failed peers would never end
  const bool is_recording = stream.is_recording();
  if (graph.owned.is_blocking && !is_recording) {
    replay_blocking(stream, times);
  } else {
    detail::with_progress_in_errors(stream.impl(), [&] { graph.replay(stream.impl(), times); });
  }
  if (is_recording) {
    detail::Recording& recording = *detail::Recording::current();
    recording.owned.kept.push_back(impl_);
    recording.states.add(graph.owned.states);
    for (std::int64_t i = 0; i < times; ++i) recording.owned.add_ops(graph.owned);
  } else {
    stream.impl().peers.add(graph.owned.peers);
  }
}

void Graph::replay_blocking(const Stream& stream, std::int64_t times) const {
  detail::GraphOwned& owned = impl().owned;
  const bool all_ops =
      !owned.calls.empty() && std::ranges::none_of(owned.calls, [](const auto& call) { return call == nullptr; });
  for (std::int64_t i = 0; i < times; ++i) {
    owned.replays += 1;
    if (all_ops) {
      replay_op_by_op(owned, stream, owned.replays);
      continue;
    }
    try {
      impl().replay(stream.impl(), 1);
      stream.synchronize();
    } catch (...) {
      detail::rethrow_from(fmt::format("call {} of {}", owned.replays, owned.program.name()));
    }
  }
}

void Graph::prepare(std::int64_t times) const { impl().prepare(times); }
bool Graph::states_are_valid() const {
  return std::ranges::all_of(impl().owned.states, &detail::WatchedState::is_valid);
}
std::vector<const State*> Graph::states() const {
  std::vector<const State*> states;
  for (const detail::WatchedState& state : impl().owned.states) {
    if (state.is_valid()) states.push_back(state.owner);
  }
  return states;
}
const Program& Graph::program() const { return impl().owned.program; }
Device Graph::device() const { return impl().device; }
std::size_t Graph::num_nodes() const { return impl().num_nodes(); }
std::size_t Graph::longest_path() const { return impl().longest_path(); }

std::size_t Graph::arena_bytes() const {
  const auto& arenas = impl().owned.arenas;
  return std::accumulate(arenas.begin(), arenas.end(), std::size_t{0},
                         [](std::size_t sum, const auto& arena) { return sum + arena->reserved_bytes(); });
}

OutsideRecording::OutsideRecording() noexcept : set_aside_(detail::StreamRecording::exchange_current(nullptr)) {}
OutsideRecording::~OutsideRecording() { detail::StreamRecording::exchange_current(set_aside_); }

}  // namespace giro
