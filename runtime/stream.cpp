#include <giro/runtime/stream.h>

#include <giro/runtime/error.h>

#include "runtime/internal/arena.h"
#include "runtime/internal/backend.h"

namespace giro {

Stream::Stream(Device device) : impl_(device.is_cuda() ? cuda::create_stream(device) : cpu::create_stream()) {}

Device Stream::device() const noexcept { return impl_->device; }

void Stream::copy(void* dst, const void* src, std::size_t bytes) const {
  if (bytes > 0) impl_->copy(dst, src, bytes);
}

void Stream::fill(void* dst, unsigned char value, std::size_t bytes) const {
  if (bytes > 0) impl_->fill(dst, value, bytes);
}

Buffer Stream::allocate(std::size_t bytes) const { return impl_->arena->allocate(bytes); }

void Stream::wait(const Event& event) const { impl_->wait(*event.impl_); }

void Stream::synchronize() const {
  if (impl_->is_recording()) {
    throw Error(ErrorCode::invalid_argument,
                "a stream cannot be waited for while it records: the recorded work has not run yet");
  }
  impl_->synchronize();
}

bool Stream::is_recording() const { return impl_->is_recording(); }

Event::Event(const Stream& stream) : impl_(stream.impl().create_event()) {}
Event::Event(Event&&) noexcept = default;
Event& Event::operator=(Event&&) noexcept = default;
Event::~Event() = default;

void Event::record(const Stream& stream) { impl_->record(stream.impl()); }
bool Event::query() const { return impl_->query(); }
void Event::synchronize() const { impl_->synchronize(); }

}  // namespace giro
