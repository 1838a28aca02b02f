#include <giro/runtime/device_context.h>

#include <mutex>
#include <optional>

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
};

DeviceContext::DeviceContext(Device device) : shared_(std::make_shared<Shared>(device)) {}

const Stream& DeviceContext::stream() const noexcept { return shared_->stream; }

const Stream& DeviceContext::copy_stream() const { return shared_->beside(shared_->copies_opened, shared_->copies); }

const Stream& DeviceContext::communication_stream() const {
  return shared_->beside(shared_->communication_opened, shared_->communication);
}

}  // namespace giro
