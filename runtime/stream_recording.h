#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include <giro/runtime/buffer.h>
#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

#include "runtime/op_scope.h"
#include "runtime/used_states.h"

namespace giro::detail {

// The recording in progress on this thread, as streams and states see it (program/recording.h has the rest). Meanwhile,
// work that the thread queues on a stream outside of the recording would not be recorded, and would run at another
// time: that is an error.
class StreamRecording : NotCopied {
 public:
  // The recording of the calling thread, or null.
  static StreamRecording* current() noexcept { return current_; }
  static std::uint64_t current_id() noexcept { return current_ != nullptr ? current_->id : 0; }
  static StreamRecording* exchange_current(StreamRecording* other) noexcept { return std::exchange(current_, other); }
  // Whether this thread does a dry run (Recording::dry_run): no work is kept, and temporaries have no memory.
  static bool is_dry() noexcept { return current_ != nullptr && current_->is_dry_; }
  // Whether work that this thread queues now is held back; work that an op queues itself is not.
  static bool holds() noexcept { return current_ != nullptr && !OpScope::is_open(); }
  // For host work on values and files, which no replay would repeat. Error(invalid_argument) in a recording, naming the
  // call.
  static void expect_none(const char* call);

  // Call the three that hold only if holds(). The tensors are bytes.
  virtual void hold_copy(const Tensor& to, const Tensor& from, const Stream& stream) = 0;
  virtual void hold_fill(const Tensor& to, unsigned char value, const Stream& stream) = 0;
  // Holds an operation on an event in order with the ops.
  virtual void hold_event(const char* name, const Stream& stream, std::function<void(const Stream&)> f) = 0;
  // A temporary with a name of its own, or an op's workspace. Error(unsupported) on a stream that has no temporaries.
  virtual Buffer allocate(StreamImpl& stream, std::size_t bytes) = 0;
  // Keeps memory that the work uses, unless it is one of the recording's temporaries.
  virtual void keep(const std::shared_ptr<const void>& memory, const void* address) = 0;

  StreamImpl& stream;
  const std::uint64_t id;  // unique
  UsedStates states;
  bool has_events = false;  // events stand for parts of its work

 protected:
  explicit StreamRecording(StreamImpl& stream);
  ~StreamRecording() { end(); }  // if no derived destructor has called it before its own members go
  void end() noexcept;           // it is the current one no longer

  bool is_dry_ = false;

 private:
  static inline constinit thread_local StreamRecording* current_ = nullptr;
};

}  // namespace giro::detail
