#include <giro/loop/log/output_array.h>

#include <fmt/format.h>

#include <utility>

#include <giro/runtime/buffer.h>
#include <giro/runtime/error.h>

namespace giro {

OutputArray::OutputArray(const Tensor& host, std::shared_ptr<const void> owner, std::shared_ptr<const Event> arrived) {
  if (!host.device().is_cpu()) {
    throw Error(ErrorCode::device_mismatch,
                fmt::format("an output array is {}, expected host memory", to_string(host)));
  }
  content_ = std::make_shared<const Content>(Content{host, std::move(owner), std::move(arrived), nullptr});
}

OutputArray::OutputArray(DType dtype, const Shape& shape, std::shared_ptr<const LogRow> row, std::size_t index)
    : content_(std::make_shared<const Content>(
          Content{Tensor(nullptr, dtype, shape, Device::cpu()), nullptr, nullptr, std::move(row), index})) {}

OutputArray OutputArray::copy_of(const Tensor& tensor, const Stream& stream) {
  if (stream.is_recording()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} cannot be copied to the host while its step is recorded", to_string(tensor)));
  }
  const auto memory =
      std::make_shared<const Buffer>(Buffer::allocate(stream.device(), tensor.bytes(), MemoryKind::pinned));
  const Tensor host(memory->data(), tensor.dtype(), tensor.shape(), Device::cpu());
  copy(host, tensor, stream);
  const auto arrived = std::make_shared<Event>(stream);
  arrived->record(stream);
  return OutputArray(host, memory, arrived);
}

OutputArray OutputArray::scalar(double value) {
  const auto number = std::make_shared<double>(value);
  return OutputArray(Tensor(number.get(), DType::f64, {}, Device::cpu()), number);
}

bool OutputArray::ready() const {
  if (content_->row) return content_->row->ready();
  return !content_->arrived || content_->arrived->query();
}

Tensor OutputArray::tensor() const {
  if (content_->row) return content_->row->array(content_->index).tensor();
  if (content_->arrived) content_->arrived->synchronize();
  return content_->host;
}

}  // namespace giro
