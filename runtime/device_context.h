#pragma once

#include <memory>

#include <giro/runtime/device.h>
#include <giro/runtime/stream.h>

namespace giro {

// Shared by all work on one device: the stream it is queued on, the handles and plans of the libraries, and the memory
// of temporaries and recordings. A handle: copies refer to the same context and compare equal. Work on states that
// share a context runs in the order in which the host queues it. One thread at a time may use it, so each training
// thread needs its own.
class DeviceContext {
 public:
  // Opens a new one. Errors: device.
  DeviceContext(Device device);  // NOLINT: implicit, so that a device can be passed as a context
  // A move is a copy, so that a context always has a stream to wait for.
  DeviceContext(const DeviceContext&) noexcept = default;
  DeviceContext& operator=(const DeviceContext&) noexcept = default;

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
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace giro
