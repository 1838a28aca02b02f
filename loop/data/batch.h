#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <giro/kernels/nn/var.h>
#include <giro/runtime/host_array.h>
#include <giro/runtime/state.h>
#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

namespace giro {

class ResidentRows;

// The names, dtypes and shapes of a batch's features, batch axis included. The first feature is the model's input.
using BatchSpec = std::vector<LeafSpec>;

// One rank's part of a batch that several ranks share (Dataset::partition).
struct BatchPart {
  int ranks = 1;               // that share the batch
  std::int64_t samples = 0;    // in the whole batch
  std::int64_t rows = 0;       // the samples of this rank; if 0, the part holds one row that does not count
  std::int64_t first_row = 0;  // the first of them in the whole batch

  // The part's weight in a mean over the ranks.
  double weight() const { return static_cast<double>(rows) * ranks / static_cast<double>(samples); }
  friend bool operator==(const BatchPart&, const BatchPart&) = default;
};

// One batch: named tensors whose first axis is the batch. A handle; copies share the memory.
//
// A batch of a dataset on a device (Dataset::to) holds no rows, only their position. A step made by jit or eager
// gathers them on the device.
class Batch {
 public:
  using Features = std::vector<std::pair<std::string, Tensor>>;
  using Arrays = std::vector<std::pair<std::string, HostArray>>;

  Batch() = default;
  // Of arrays on the host: Batch({{"x", {xs, {n, 2}}}, {"y", ys}}) of two std::vectors. Waits until they have arrived.
  explicit Batch(const Arrays& features);
  // `owner` keeps the tensors' memory alive.
  explicit Batch(Features features, std::shared_ptr<const void> owner = nullptr);
  // Tensors on the stream's device, for work on that stream. This is what a step made by jit or eager receives.
  Batch(Features features, const Stream& stream, std::shared_ptr<const void> owner = nullptr);
  // Rows [position, position + rows) in the order of a resident dataset.
  Batch(std::shared_ptr<ResidentRows> resident_rows, std::int64_t position, std::int64_t rows);

  // The feature with this name. Within a step it is a value on the step's stream, to compute with; elsewhere it is a
  // constant that the host reads with data<T>(). The result keeps its memory alive if the batch does. Exception: the
  // next call of a step overwrites the memory of a batch that came from the host. Errors: not_found, naming the nearest
  // feature; unsupported if the batch lies on a device and was not gathered.
  nn::Var operator[](const std::string& name) const;
  const Features& features() const& noexcept { return features_; }
  const Features& features() const&& = delete;
  BatchSpec spec() const;
  // Part number `part` of `parts` equal parts of the rows, in order; shares the memory. Works within a step and on host
  // memory. Errors: invalid_argument if `parts` does not divide the rows, unsupported as above.
  Batch slice(int part, int parts) const;

  // Rows in this batch: the largest first axis over the features. A scalar feature counts 1, and so does a batch
  // without features.
  std::int64_t size() const;
  // size(), or the samples of the whole batch if this is a part of one.
  std::int64_t samples() const { return part_ ? part_->samples : size(); }
  // Empty unless several ranks share the batch.
  const std::optional<BatchPart>& part() const noexcept { return part_; }
  // For batches that are not made by Dataset::partition: says which part of the whole batch these rows are.
  void set_part(const std::optional<BatchPart>& part) noexcept { part_ = part; }

  // Null unless the batch lies on a device.
  const std::shared_ptr<ResidentRows>& resident_rows() const noexcept { return resident_rows_; }
  std::int64_t position() const noexcept { return position_; }

 private:
  Features features_;
  std::shared_ptr<const void> owner_;
  std::optional<Stream> stream_;
  std::shared_ptr<ResidentRows> resident_rows_;
  std::int64_t position_ = 0;
  std::int64_t rows_ = 0;
  std::optional<BatchPart> part_;
};

}  // namespace giro
