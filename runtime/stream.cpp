#include <giro/runtime/stream.h>

#include <utility>

#include "runtime/arena.h"
#include "runtime/backend.h"
#include "runtime/op_by_op.h"
#include "runtime/stream_recording.h"
#include "runtime/throw_error.h"

namespace giro {
namespace {

// An argument for an op. The bytes may be on any device: ops use only their address and number.
Tensor bytes_at(const void* data, std::size_t bytes) {
  return {const_cast<void*>(data), DType::u8, {static_cast<std::int64_t>(bytes)}, Device::cpu()};
}

// Queues an operation on an event. A recording holds it in order with its ops.
template <class F>
void queue_event(const char* name, const Stream& stream, F f) {
  if (!detail::StreamRecording::holds()) return f(stream);
  detail::StreamRecording::current()->hold_event(name, stream, std::move(f));
}

}  // namespace

Stream::Stream(Device device) : impl_(device.is_cuda() ? cuda::create_stream(device) : cpu::create_stream()) {}

Device Stream::device() const noexcept { return impl_->device; }

void detail::queue_copy(const Tensor& to, const Tensor& from, const Stream& stream) {
  stream.impl().check_usable("copy");
  if (to.bytes() == 0) return;
  if (StreamRecording::holds()) return StreamRecording::current()->hold_copy(to, from, stream);
  run_op("copy", stream, [&] { stream.impl().copy(to.raw(), from.raw(), to.bytes()); });
}

void Stream::copy(void* dst, const void* src, std::size_t bytes) const {
  detail::queue_copy(bytes_at(dst, bytes), bytes_at(src, bytes), *this);
}

void Stream::fill(void* dst, unsigned char value, std::size_t bytes) const {
  impl_->check_usable("fill");
  if (bytes == 0) return;
  using detail::StreamRecording;
  if (StreamRecording::holds()) return StreamRecording::current()->hold_fill(bytes_at(dst, bytes), value, *this);
  detail::run_op("fill", *this, [&] { impl_->fill(dst, value, bytes); });
}

Buffer Stream::allocate(std::size_t bytes) const {
  impl_->check_usable("allocate");
  detail::StreamRecording* const recording = detail::StreamRecording::current();
  return recording != nullptr ? recording->allocate(*impl_, bytes) : impl_->arena->allocate(bytes);
}

void Stream::wait(const Event& event) const {
  detail::EventImpl& marked = event.impl();
  detail::StreamRecording* recording = detail::StreamRecording::current();
  if (recording != nullptr && marked.recorded_in == recording->id && device() == recording->stream.device) {
    impl_->joined = recording->id;
    const auto wait = [event = event.impl_](const Stream& stream) { stream.impl().wait(*event); };
    return queue_event("wait for an event", *this, wait);
  }
  impl_->check_usable("wait");
  if (!marked.marked) return;
  if (marked.recorded_in != 0) {
    throw_invalid(
        "wait: the event was recorded within a recording, where nothing has run: only streams that take part in it can "
        "wait for it");
  }
  if (recording != nullptr) {
    throw_invalid("wait: a recording cannot wait for work from outside it: wait before it begins");
  }
  impl_->wait(marked);
  impl_->peers.add(marked.peers);
}

void Stream::synchronize() const {
  impl_->check_usable("synchronize");
  if (impl_->is_recording()) {
    throw_invalid(
        "synchronize: a stream cannot be waited for while it is recording: the recorded work has not run yet");
  }
  impl_->peers.wait([&] { detail::with_progress_in_errors(*impl_, [&] { impl_->synchronize(); }); });
  impl_->faults.expect_none();
}

bool Stream::is_recording() const { return impl_->is_recording(); }

Event::Event(const Stream& stream) : impl_(stream.impl().create_event()) {}

detail::EventImpl& Event::impl() const {
  if (!impl_) throw_invalid("an event was used that had been moved from");
  return *impl_;
}

void Event::record(const Stream& stream) {
  stream.impl().check_usable("record an event");
  const bool is_recording = stream.is_recording();
  detail::EventImpl& marked = impl();
  if (is_recording) {
    queue_event("record an event", stream, [event = impl_](const Stream& on) {
      event->record(on.impl());
      detail::StreamRecording::current()->has_events = true;
    });
  } else {
    marked.record(stream.impl());
    marked.peers = stream.impl().peers;
  }
  marked.marked = true;
  marked.recorded_in = is_recording ? detail::StreamRecording::current()->id : 0;
  marked.stream = std::shared_ptr<detail::StreamImpl>(stream.impl_);
}

void detail::wait_for_work(const Stream& stream, const Stream& other) {
  if (stream == other) return;
  Event queued(other);
  queued.record(other);
  stream.wait(queued);
}

namespace {
void expect_outside(const detail::EventImpl& event, const char* call) {
  if (event.recorded_in == 0) return;
  throw_invalid("{}: the event was recorded within a recording: the host cannot wait for it", call);
}

template <class F>
decltype(auto) with_event_progress_in_errors(const detail::EventImpl& event, F&& f) {
  const auto stream = event.stream.lock();
  return stream ? detail::with_progress_in_errors(*stream, f) : f();
}
}  // namespace

bool Event::query() const {
  expect_outside(impl(), "query");
  const bool done = with_event_progress_in_errors(*impl_, [&] { return impl_->query(); });
  if (done) impl_->peers.check();
  return done;
}

void Event::synchronize() const {
  expect_outside(impl(), "synchronize");
  impl_->peers.wait([&] { with_event_progress_in_errors(*impl_, [&] { impl_->synchronize(); }); });
}

}  // namespace giro
