#pragma once

#include <memory>

#include <giro/runtime/device.h>
#include <giro/runtime/stream.h>

namespace giro {

// What work on one device shares: the stream it is queued on, the handles and plans of the libraries, and the memory of
// temporaries and recordings. A handle: copies name the same context, and compare equal. States that share one are
// worked on in the order of the host; one thread at a time may use it, so each thread that trains needs its own.
class DeviceContext {
 public:
  // Opens a new one. Errors: device.
  DeviceContext(Device device);  // NOLINT: where a context is wanted, a device is enough
  // A move is a copy: there is always a stream to wait for.
  DeviceContext(const DeviceContext&) noexcept = default;
  DeviceContext& operator=(const DeviceContext&) noexcept = default;

  Device device() const noexcept { return stream().device(); }
  // The stream of all computation.
  const Stream& stream() const noexcept;
  // A stream beside it, for copies that are made ahead; opened when first asked for. On the CPU, where nothing runs
  // beside the caller, the stream of computation itself. Errors: device.
  const Stream& copy_stream() const;
  // Another, for what ranks send each other while computation goes on; likewise.
  const Stream& communication_stream() const;

  friend bool operator==(const DeviceContext& a, const DeviceContext& b) noexcept { return a.shared_ == b.shared_; }

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace giro
