#include <giro/loop/data/batch.h>

#include <algorithm>

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

}  // namespace giro
