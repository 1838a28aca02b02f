#pragma once

#include <giro/runtime/device.h>
#include <giro/runtime/handle.h>
#include <giro/runtime/not_copied.h>
#include <giro/runtime/stream.h>

namespace giro {

namespace detail {
class ContextUse;
}

// Shared by all work on one device: the stream it is queued on, the handles and plans of the libraries, and the memory
// of temporaries and recordings. A handle: copies refer to the same context and compare equal. Work on states that
// share a context runs in the order in which the host queues it. One thread at a time may use it, so each training
// thread needs its own: a loop, a step's call or an update is an Error(invalid_argument) while one runs in another
// thread, even if that thread waits for this one.
class DeviceContext {
 public:
  // Opens a new one. Errors: device.
  DeviceContext(Device device);  // NOLINT: implicit, so that a device can be passed as a context

  Device device() const noexcept { return stream().device(); }
  // The stream of all computation.
  const Stream& stream() const noexcept;
  // A second stream for copies made ahead of time; opened on first use. On the CPU, where nothing runs concurrently
  // with the caller, it is the stream of computation itself. Errors: device.
  const Stream& copy_stream() const;
  // A third stream, for communication between ranks during computation; otherwise like copy_stream().
  const Stream& communication_stream() const;

  friend bool operator==(const DeviceContext& a, const DeviceContext& b) noexcept { return a.shared_ == b.shared_; }

 private:
  friend class detail::ContextUse;
  struct Shared;
  detail::Handle<Shared> shared_;
};

namespace detail {

// While an instance lives, the thread that made it uses the context. May be nested. Error(invalid_argument) if another
// thread uses it.
class ContextUse : NotCopied {
 public:
  explicit ContextUse(const DeviceContext& context);
  ~ContextUse();

 private:
  const DeviceContext context_;
  bool is_outermost_ = true;
};

}  // namespace detail
}  // namespace giro
