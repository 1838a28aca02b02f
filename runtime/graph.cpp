#include <giro/runtime/graph.h>

#include <utility>

#include <giro/runtime/error.h>

#include "runtime/internal/arena.h"
#include "runtime/internal/backend.h"
#include "runtime/internal/queueing.h"

namespace giro {

Graph Graph::record(const Stream& stream, const std::function<void()>& body) {
  detail::StreamImpl& impl = stream.impl();
  if (impl.is_recording()) {
    throw Error(ErrorCode::invalid_argument, "a recording cannot start inside another on the same stream");
  }
  auto arena = std::make_shared<Arena>(impl.device, Arena::Of::recording);
  impl.begin_recording();
  const auto outer = std::exchange(impl.arena, arena);
  try {
    {
      const detail::RecordingScope scope(impl);
      body();
    }
    impl.arena = outer;
    return Graph(impl.end_recording(), std::move(arena));
  } catch (...) {
    impl.arena = outer;
    impl.abandon_recording();
    throw;
  }
}

Graph::Graph(std::unique_ptr<detail::GraphImpl> impl, std::shared_ptr<Arena> arena)
    : impl_(std::move(impl)), arena_(std::move(arena)) {}
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;
Graph::~Graph() = default;

void Graph::replay(const Stream& stream, std::int64_t times) const { impl_->replay(stream.impl(), times); }
std::size_t Graph::num_nodes() const { return impl_->num_nodes(); }
std::size_t Graph::arena_bytes() const { return arena_->reserved_bytes(); }

}  // namespace giro
