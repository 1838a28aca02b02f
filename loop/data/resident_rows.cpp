#include "loop/data/resident_rows.h"

#include <memory>
#include <utility>

#include "kernels/ops.h"
#include "runtime/throw_error.h"

namespace giro {

ResidentRows::ResidentRows(const Batch::Features& rows, RowOrder order, Device device)
    : device_(device), order_(order) {
  const Stream stream(device);
  for (const auto& [name, tensor] : rows) {
    if (tensor.shape().rank() == 0 || tensor.shape()[0] != order.size) {
      throw_error(ErrorCode::shape_mismatch, "feature '{}' is {}, expected {} rows", name, to_string(tensor),
                  order.size);
    }
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
