#include <giro/runtime/stream.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include <giro/runtime/error.h>

#include "runtime/internal/arena.h"
#include "runtime/internal/backend.h"
#include "runtime/internal/throw_error.h"
#include "runtime/program/copy.h"
#include "runtime/program/op.h"
#include "runtime/program/op_scope.h"

namespace giro {
namespace {

// An argument for an op. The bytes may be on any device: ops use only their address and number.
Tensor bytes_at(const void* data, std::size_t bytes) {
  return {const_cast<void*>(data), DType::u8, {static_cast<std::int64_t>(bytes)}, Device::cpu()};
}

struct Fill {
  static constexpr const char* kName = "fill";
  Out to;
  unsigned char value;
};
void run(const Fill& op, const Stream& stream) { stream.impl().fill(op.to.raw(), op.value, op.to.bytes()); }

// Queues an operation on an event. A recording holds it in order with its ops.
template <class F>
void queue_event(const char* name, const Stream& stream, F f) {
  if (!detail::Recording::holds()) return f(stream);
  detail::Recording::current()->hold(detail::HeldOp::Kind::event, Program::Node(name, {}, {}), stream, std::move(f),
                                     std::array<Tensor, 0>{});
}

}  // namespace

void ops::run(const Copy& op, const Stream& stream) { stream.impl().copy(op.to.raw(), op.from.raw(), op.to.bytes()); }

Stream::Stream(Device device) : impl_(device.is_cuda() ? cuda::create_stream(device) : cpu::create_stream()) {}

Device Stream::device() const noexcept { return impl_->device; }

void detail::queue_copy(const Tensor& to, const Tensor& from, const Stream& stream) {
  stream.impl().check_usable("copy");
  if (to.bytes() == 0) return;
  queue(ops::Copy{to, from}, stream);
}

void Stream::copy(void* dst, const void* src, std::size_t bytes) const {
  detail::queue_copy(bytes_at(dst, bytes), bytes_at(src, bytes), *this);
}

void Stream::fill(void* dst, unsigned char value, std::size_t bytes) const {
  impl_->check_usable("fill");
  if (bytes == 0) return;
  queue(Fill{bytes_at(dst, bytes), value}, *this);
}

Buffer Stream::allocate(std::size_t bytes) const {
  impl_->check_usable("allocate");
  detail::Recording* const recording = detail::Recording::current();
  if (recording == nullptr) return impl_->arena->allocate(bytes);
  // An op gives its workspace back at once; other temporaries are planned when the program is known.
  if (detail::OpScope::is_open()) {
    recording->largest_workspace = std::max(recording->largest_workspace, bytes);
    return recording->arena_of(*impl_).allocate(bytes);
  }
  if (&recording->stream != impl_.get()) {
    // Temporaries share memory in the order of one stream, and this stream runs concurrently.
    throw Error(ErrorCode::unsupported,
                "allocate: a stream that has joined a recording has no temporaries, expected the recording stream");
  }
  return recording->allocate(bytes);
}

void Stream::wait(const Event& event) const {
  detail::EventImpl& marked = event.impl();
  detail::Recording* recording = detail::Recording::current();
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
      detail::Recording::current()->has_events = true;
    });
  } else {
    marked.record(stream.impl());
    marked.peers = stream.impl().peers;
  }
  marked.marked = true;
  marked.recorded_in = is_recording ? detail::Recording::current()->id : 0;
  marked.stream = std::shared_ptr<detail::StreamImpl>(stream.impl_);
}

namespace {
void expect_outside(const detail::EventImpl& event, const char* call) {
  if (event.recorded_in == 0) return;
  throw Error(ErrorCode::invalid_argument,
              std::string(call) + ": the event was recorded within a recording: the host cannot wait for it");
}

template <class F>
decltype(auto) with_event_progress_in_errors(const detail::EventImpl& event, F&& f) {
  try {
    return f();
  } catch (const Error& error) {
    const auto stream = event.stream.lock();
    if (error.code() != ErrorCode::device || !stream) throw;
    detail::rethrow_with_progress(*stream);
  }
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
