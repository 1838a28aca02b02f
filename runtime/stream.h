#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include <giro/runtime/buffer.h>
#include <giro/runtime/device.h>
#include <giro/runtime/handle.h>

namespace giro {

namespace detail {
class StreamImpl;
class EventImpl;
}  // namespace detail

class Event;

// An ordered queue of work on one device. A handle: copies refer to the same queue and compare equal. On the CPU work
// runs in the calling thread, at once. One thread at a time may use a stream.
class Stream {
 public:
  // Errors: device.
  explicit Stream(Device device);

  Device device() const noexcept;

  // Copies bytes between any two places the device can reach. Unpinned host memory is read before the call returns.
  void copy(void* dst, const void* src, std::size_t bytes) const;
  void fill(void* dst, unsigned char value, std::size_t bytes) const;

  // A temporary for work on this stream; contents undefined. It may be dropped as soon as the work that uses it is
  // queued. In a recording it has no memory until the work is planned, unless it is asked for its address
  // (Buffer::data): then its memory stays as long as the graph, as does that of one still held at the end.
  Buffer allocate(std::size_t bytes) const;

  // Work queued afterwards starts after the event.
  void wait(const Event& event) const;
  // Waits for everything queued so far. Errors: device (an earlier operation failed), communication (a collective
  // failed), invalid_argument (an earlier operation found an index out of range; or while recording, when nothing has
  // run yet).
  void synchronize() const;
  bool is_recording() const;

  friend bool operator==(const Stream& a, const Stream& b) noexcept { return a.impl_ == b.impl_; }

  // For backends.
  explicit Stream(std::shared_ptr<detail::StreamImpl> impl) noexcept : impl_(std::move(impl)) {}
  detail::StreamImpl& impl() const noexcept { return *impl_; }

 private:
  friend class Event;
  detail::Handle<detail::StreamImpl> impl_;
};

// A point in a stream's work that the host or another stream can wait for. Move-only; using a moved-from event is an
// Error(invalid_argument).
class Event {
 public:
  explicit Event(const Stream& stream);
  Event(Event&&) noexcept = default;
  Event& operator=(Event&&) noexcept = default;

  // Marks the work queued on `stream` so far, replacing any earlier mark.
  void record(const Stream& stream);
  // True once the marked work is done, or if nothing was ever marked. Errors of query() and synchronize() as for
  // Stream::synchronize.
  bool query() const;
  void synchronize() const;

 private:
  friend class Stream;
  detail::EventImpl& impl() const;
  std::shared_ptr<detail::EventImpl> impl_;  // null once moved from
};

}  // namespace giro
