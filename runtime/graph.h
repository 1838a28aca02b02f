#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include <giro/runtime/stream.h>

namespace giro {

namespace detail {
class GraphImpl;
}

// Work recorded once and replayed many times: a CUDA graph, or on the CPU a list of calls. Holds the arena of
// the temporaries that its work uses; every other address it touches must outlive it. Move-only.
class Graph {
 public:
  // Runs `body`, which queues work on `stream`; that work is recorded and not executed. If `body` throws, the
  // recording is dropped and the exception passes through. Errors: device, invalid_argument (nested recording).
  static Graph record(const Stream& stream, const std::function<void()>& body);

  Graph(Graph&&) noexcept;
  Graph& operator=(Graph&&) noexcept;
  ~Graph();

  // Queues the recorded work on a stream of the same device, `times` in a row: on a GPU as few launches, for graphs
  // of 2, 4, 8, ... repetitions are made where they are first asked for.
  void replay(const Stream& stream, std::int64_t times = 1) const;

  std::size_t num_nodes() const;
  std::size_t arena_bytes() const;

 private:
  Graph(std::unique_ptr<detail::GraphImpl> impl, std::shared_ptr<Arena> arena);
  std::unique_ptr<detail::GraphImpl> impl_;
  std::shared_ptr<Arena> arena_;
};

}  // namespace giro
