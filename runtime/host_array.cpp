#include <giro/runtime/host_array.h>

#include <giro/runtime/buffer.h>

#include "runtime/throw_error.h"

namespace giro {

HostArray::HostArray(const Tensor& host, std::shared_ptr<const void> owner, std::shared_ptr<const Event> arrived)
    : content_(std::make_shared<const Content>(
          Content{host.dtype(), host.shape(), host, std::move(owner), std::move(arrived), nullptr})) {
  if (host.is_empty()) throw_invalid("HostArray: found {}, expected one with memory", to_string(host));
  if (!host.device().is_cpu()) {
    throw_error(ErrorCode::device_mismatch, "HostArray: found {}, expected host memory", to_string(host));
  }
}

HostArray::HostArray(const HostArray& values, const Shape& shape) : content_(values.content_) {
  const Tensor& flat = values.content_->host;
  if (shape.count() != flat.count()) {
    throw_error(ErrorCode::shape_mismatch, "HostArray: found {} values, expected {} for the shape {}", flat.count(),
                shape.count(), to_string(shape));
  }
  content_ = std::make_shared<const Content>(
      Content{flat.dtype(), shape, flat.reshape(shape), values.content_->owner, nullptr, nullptr});
}

HostArray::HostArray(DType dtype, const Shape& shape, std::shared_ptr<const Arriving> arriving)
    : content_(std::make_shared<const Content>(Content{dtype, shape, {}, nullptr, nullptr, std::move(arriving)})) {}

HostArray HostArray::copy_of(const Tensor& tensor, const Stream& stream) {
  if (stream.is_recording()) {
    throw_invalid("{} cannot be copied to the host while its step is being recorded", to_string(tensor));
  }
  const auto memory =
      std::make_shared<const Buffer>(Buffer::allocate(stream.device(), tensor.bytes(), MemoryKind::pinned));
  const Tensor host(memory->data(), tensor.dtype(), tensor.shape(), Device::cpu());
  copy(host, tensor, stream);
  const auto arrived = std::make_shared<Event>(stream);
  arrived->record(stream);
  return HostArray(host, memory, arrived);
}

HostArray HostArray::scalar(double value) {
  const auto number = std::make_shared<double>(value);
  return HostArray(Tensor(number.get(), DType::f64, {}, Device::cpu()), number);
}

bool HostArray::ready() const {
  if (content_->arriving) return content_->arriving->ready();
  return !content_->arrived || content_->arrived->query();
}

Tensor HostArray::tensor() const {
  if (content_->arriving) return content_->arriving->tensor();
  if (content_->arrived) content_->arrived->synchronize();
  return content_->host;
}

}  // namespace giro
