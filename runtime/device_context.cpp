#include <giro/runtime/device_context.h>

#include <mutex>
#include <optional>

namespace giro {

struct DeviceContext::Shared {
  explicit Shared(Device device) : stream(device) {}

  Stream stream;
  std::once_flag copies_opened;
  std::optional<Stream> copies;
};

DeviceContext::DeviceContext(Device device) : shared_(std::make_shared<Shared>(device)) {}

const Stream& DeviceContext::stream() const noexcept { return shared_->stream; }

const Stream& DeviceContext::copy_stream() const {
  if (device().is_cpu()) return stream();
  std::call_once(shared_->copies_opened, [&] { shared_->copies.emplace(device()); });
  return *shared_->copies;
}

}  // namespace giro
