#include <giro/runtime/device_context.h>

#include <atomic>
#include <mutex>
#include <optional>
#include <thread>

#include "runtime/throw_error.h"

namespace giro {

struct DeviceContext::Shared {
  explicit Shared(Device device) : stream(device) {}

  const Stream& beside(std::once_flag& opened, std::optional<Stream>& other) {
    if (stream.device().is_cpu()) return stream;
    std::call_once(opened, [&] { other.emplace(stream.device()); });
    return *other;
  }

  Stream stream;
  std::once_flag copies_opened, communication_opened;
  std::optional<Stream> copies, communication;
  std::atomic<std::thread::id> user;  // the thread that uses it
};

DeviceContext::DeviceContext(Device device) : shared_(std::make_shared<Shared>(device)) {}

const Stream& DeviceContext::stream() const noexcept { return shared_->stream; }

const Stream& DeviceContext::copy_stream() const { return shared_->beside(shared_->copies_opened, shared_->copies); }

const Stream& DeviceContext::communication_stream() const {
  return shared_->beside(shared_->communication_opened, shared_->communication);
}

detail::ContextUse::ContextUse(const DeviceContext& context) : context_(context) {
  const std::thread::id here = std::this_thread::get_id();
  std::thread::id user;
  if (context.shared_->user.compare_exchange_strong(user, here, std::memory_order_acquire)) return;
  if (user != here) {
    throw_invalid(
        "a context of {} is used by two threads at once, expected one of its own for the states of each thread, as by "
        "DeviceContext(Device)",
        to_string(context.device()));
  }
  is_outermost_ = false;
}

detail::ContextUse::~ContextUse() {
  if (is_outermost_) context_.shared_->user.store({}, std::memory_order_release);
}

}  // namespace giro
