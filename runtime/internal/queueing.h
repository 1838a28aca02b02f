#pragma once

#include <utility>

namespace giro::detail {

class StreamImpl;

// What the calling thread queues work for.
struct Queueing {
  const StreamImpl* recorded = nullptr;  // the stream it is recording, or null
  bool by_op = false;                    // an op is taking addresses for its kernels
};
inline constinit thread_local Queueing queueing;

// The calling thread records on `stream` while one of these lives.
class RecordingScope {
 public:
  explicit RecordingScope(const StreamImpl& stream) : outer_(std::exchange(queueing.recorded, &stream)) {}
  ~RecordingScope() { queueing.recorded = outer_; }
  RecordingScope(const RecordingScope&) = delete;
  RecordingScope& operator=(const RecordingScope&) = delete;

 private:
  const StreamImpl* outer_;
};

// A backend's op runs while one of these lives: it may take the addresses of values that a recording has yet to compute
// (Tensor::data), for kernels that will run at the replay.
class OpScope {
 public:
  OpScope() : outer_(std::exchange(queueing.by_op, true)) {}
  ~OpScope() { queueing.by_op = outer_; }
  OpScope(const OpScope&) = delete;
  OpScope& operator=(const OpScope&) = delete;

 private:
  bool outer_;
};

}  // namespace giro::detail
