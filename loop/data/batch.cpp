#include <giro/loop/data/batch.h>

#include <algorithm>

#include "kernels/ops.h"
#include "loop/data/resident_rows.h"
#include "runtime/text.h"
#include "runtime/throw_error.h"

namespace giro {

Batch::Batch(const Arrays& features) : owner_(std::make_shared<const Arrays>(features)) {
  for (const auto& [name, array] : features) features_.emplace_back(name, array.tensor());
}

Batch::Batch(Features features, std::shared_ptr<const void> owner)
    : features_(std::move(features)), owner_(std::move(owner)) {
  for (const auto& [name, tensor] : features_) {
    if (tensor.is_empty()) {
      throw_invalid("Batch: the feature '{}' is {}, expected one with memory", name, to_string(tensor));
    }
  }
}

Batch::Batch(Features features, const Stream& stream, std::shared_ptr<const void> owner)
    : features_(std::move(features)), owner_(std::move(owner)), stream_(stream) {}

Batch::Batch(std::shared_ptr<ResidentRows> resident_rows, std::int64_t position, std::int64_t rows)
    : resident_rows_(std::move(resident_rows)), position_(position), rows_(rows) {}

nn::Var Batch::operator[](const std::string& name) const {
  for (const auto& [feature, tensor] : features_) {
    if (feature != name) continue;
    const nn::Var value(tensor, owner_);
    return stream_ ? value.on(*stream_) : value;
  }
  std::vector<std::string> known;
  for (const LeafSpec& feature : spec()) known.push_back(feature.name);
  if (resident_rows_ && std::find(known.begin(), known.end(), name) != known.end()) {
    throw_error(ErrorCode::unsupported,
                "feature '{}' is on {} and was not gathered: only a step made by jit or eager can read it", name,
                to_string(resident_rows_->device()));
  }
  throw_error(ErrorCode::not_found, "no feature '{}' in the batch{}", name, suggestion(name, known));
}

BatchSpec Batch::spec() const {
  if (resident_rows_) return resident_rows_->spec(rows_);
  BatchSpec spec;
  for (const auto& [name, tensor] : features_) spec.push_back({name, tensor.dtype(), tensor.shape()});
  return spec;
}

Batch Batch::slice(int part, int parts) const {
  if (parts < 1 || part < 0 || part >= parts || size() % parts != 0) {
    throw_invalid("slice: part {} of {} of a batch of {}, expected a number of parts that divides it", part, parts,
                  size());
  }
  if (resident_rows_) {
    throw_error(ErrorCode::unsupported, "slice: the batch is on {} and was not gathered",
                to_string(resident_rows_->device()));
  }
  Batch slice = *this;
  for (auto& [name, tensor] : slice.features_) {
    const std::int64_t rows = size() / parts;
    if (tensor.shape().rank() == 0 || tensor.shape()[0] != size()) continue;
    const std::size_t bytes = tensor.bytes() / static_cast<std::size_t>(parts);
    tensor = Tensor(static_cast<char*>(tensor.place()) + static_cast<std::size_t>(part) * bytes, tensor.dtype(),
                    tensor.shape().drop_front().with_front(rows), tensor.device());
  }
  return slice;
}

std::int64_t Batch::size() const {
  if (resident_rows_) return rows_;
  if (features_.empty()) return 1;
  std::int64_t size = 0;
  for (const auto& [name, tensor] : features_) {
    size = std::max(size, tensor.shape().rank() == 0 ? 1 : tensor.shape()[0]);
  }
  return size;
}

ResidentRows::ResidentRows(const Batch::Features& rows, RowOrder order, Device device)
    : device_(device), order_(order) {
  const Stream stream(device);
  for (const auto& [name, tensor] : rows) {
    row_buffers_.push_back(Buffer::allocate(device, tensor.bytes()));
    rows_.emplace_back(name, Tensor(row_buffers_.back().data(), tensor.dtype(), tensor.shape(), device));
    copy(rows_.back().second, tensor, stream);
  }
  stream.synchronize();
}

BatchSpec ResidentRows::spec(std::int64_t rows) const {
  BatchSpec spec;
  for (const auto& [name, tensor] : rows_) {
    spec.push_back({name, tensor.dtype(), tensor.shape().drop_front().with_front(rows)});
  }
  return spec;
}

Batch ResidentRows::gather(std::int64_t rows, const ByteRing& positions, const Stream& stream) const {
  const Buffer index_buffer = stream.allocate(static_cast<std::size_t>(rows) * sizeof(std::int64_t));
  const Tensor indices(index_buffer.place(), DType::i64, {rows}, device_);
  queue(ops::BatchIndices{indices, positions.slots, positions.call, order_}, stream);

  const auto storage = std::make_shared<std::vector<Buffer>>();
  Batch::Features features;
  for (const auto& [name, tensor] : rows_) {
    const Shape shape = tensor.shape().drop_front().with_front(rows);
    const std::size_t bytes = static_cast<std::size_t>(shape.count()) * size_of(tensor.dtype());
    storage->push_back(stream.allocate(bytes));
    const Tensor gathered(storage->back().place(), tensor.dtype(), shape, device_);
    queue(ops::GatherRows{gathered, tensor, indices, 0, {}}, stream);
    features.emplace_back(name, gathered);
  }
  return Batch(std::move(features), stream, storage);
}

}  // namespace giro
