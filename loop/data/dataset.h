#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <giro/loop/data/batch.h>
#include <giro/loop/data/begin_at.h>
#include <giro/runtime/device.h>
#include <giro/runtime/files/file_system.h>
#include <giro/runtime/handle.h>
#include <giro/runtime/host_array.h>

namespace giro {

class Archive;
class Partitioner;
class RowSource;

// Rows of named features as a stream of batches: a C++20 input range of Batch. Chained calls configure it; each returns
// a new value that shares the rows:
//
//   auto train = data::mnist("train").shuffle(0).repeat().batch(32).prefetch(2);
//
//   Dataset points({{"x", {xs, {n, 2}}}, {"y", ys}});  // from std::vectors
//
// The order of batches is a pure function of (seed, epoch, position): shuffling needs no buffer, and skipping is O(1).
// With repeat, a batch may straddle two epochs; without it, the last batch holds the remaining rows. Every begin()
// starts over, after the batches skipped by skip().
class Dataset {
 public:
  class Iterator;
  using Arrays = Batch::Arrays;

  // Rows (N, ...) of each feature, with the same N >= 1 for all; a std::vector converts to an array of shape (N,).
  // Errors: invalid_argument (no feature, or an empty or repeated name), shape_mismatch.
  explicit Dataset(const Arrays& features);
  // The same for host memory that `owner` keeps alive. Also Error(device_mismatch) if it is not host memory.
  explicit Dataset(Batch::Features rows, std::shared_ptr<const void> owner = nullptr);

  // The same for rows that are read when a batch is made (row_source.h).
  explicit Dataset(const std::vector<std::pair<std::string, std::shared_ptr<const RowSource>>>& features);

  // Gives each epoch its own order, keyed by (seed, epoch). Call before batch, and not with sample, else
  // Error(invalid_argument).
  Dataset shuffle(std::uint64_t seed) const;
  // Makes each epoch draw num_rows() rows with replacement, row r with a probability proportional to weights[r], like
  // PyTorch's WeightedRandomSampler: each draw is a pure function of (seed, epoch, position). Such a dataset stays on
  // the host: `to` is an error. Errors: invalid_argument for a number of weights other than num_rows(), a weight that
  // is negative or not finite, weights that are all 0, or a call after batch, shuffle or sample.
  Dataset sample(const std::vector<double>& weights, std::uint64_t seed) const;
  // Repeats the rows for `epochs` >= 1 epochs, or without end. Call before batch, at most once.
  Dataset repeat(std::int64_t epochs = kForever) const;
  // Requires 1 <= size <= number of rows, else Error(invalid_argument) naming both. Call at most once.
  Dataset batch(std::int64_t size, bool drop_remainder = false) const;
  // Applies `f` to every batch on the host, in order; its result may share memory with its argument. Call after batch.
  Dataset map(std::function<Batch(const Batch&)> f) const;
  // Makes up to `depth` batches ahead on a separate thread. Call after batch. The iterator rethrows an exception of map
  // at the batch that caused it.
  Dataset prefetch(std::size_t depth) const;
  // Skips the first batches. Call after batch.
  Dataset skip(std::int64_t batches) const;
  // Copies the rows to the device, where steps gather their batches. Call after batch. Excludes map, and prefetch has
  // no effect. Errors: invalid_argument, unsupported if the rows are not in memory or are drawn by sample, device (no
  // such device), out_of_memory.
  Dataset to(Device device) const;

  // This rank's part of each batch, of equal size on all ranks: together, the parts are the batches of the
  // unpartitioned dataset. A short last batch fills the ranks in order, from the first on; each part counts the rows it
  // holds (BatchPart). Call after batch, once, on all ranks; null changes nothing. Errors: invalid_argument if the
  // number of ranks does not divide the batch size; communication if the ranks have different rows or orders; only a
  // sample of the rows is compared.
  Dataset partition(const std::shared_ptr<const Partitioner>& partitioner) const;

  static constexpr std::int64_t kForever = -1;

  std::int64_t num_rows() const;
  // The rows of each feature, (N, ...) in host memory, in their original order, also for a dataset on a device. Valid
  // as long as the dataset or a copy of it lives. Error(unsupported) if they are not in memory.
  const Batch::Features& rows() const&;
  const Batch::Features& rows() const&& = delete;
  // Indices of the rows in the given batch, or in this rank's part of it, in the batch's order. Batches count from 0 at
  // begin(). In a loop that starts from the beginning, indices(elapsed.steps) gives the rows of the step's batch,
  // before map. Error(invalid_argument) if there is no such batch.
  std::vector<std::int64_t> indices(std::int64_t batch) const;
  // Batches from begin() to end(), or kForever.
  std::int64_t num_batches() const;
  // Names, dtypes and shapes of a full batch, after map; calls map on the first batch. Without batch(), a batch has one
  // row.
  BatchSpec spec() const;

  // For a resumed run: the number of batches skipped by skip(), and an iterator that starts at `batch`, which counts
  // from the very first batch, before any were skipped.
  std::int64_t first_batch() const;
  Iterator begin_at(std::int64_t batch) const;
  // Saves or checks what a resumed run needs unchanged: the number of rows, their order or weights, the batch size, and
  // the features by a checksum. The checksum covers up to 511 evenly spread rows of each feature. map is not checked.
  // Error(invalid_argument) on a difference.
  void persist(Archive& archive) const;

  Iterator begin() const;
  std::default_sentinel_t end() const { return {}; }

 private:
  struct Plan;
  explicit Dataset(std::shared_ptr<const Plan> plan);
  detail::Handle<const Plan> plan_;
};

// Move-only input iterator: holds the current batch, and the prefetching thread if there is one. If making a batch
// throws, the iterator is at the end. At the end it still holds the last batch.
class Dataset::Iterator {
 public:
  using value_type = Batch;
  using difference_type = std::ptrdiff_t;

  Iterator() = default;
  explicit Iterator(std::shared_ptr<const Plan> plan);
  Iterator(Iterator&&) noexcept = default;
  Iterator& operator=(Iterator&&) noexcept = default;

  // Valid until the next batch has been made; a copy stays valid.
  const Batch& operator*() const;
  Iterator& operator++();
  void operator++(int) { ++*this; }
  friend bool operator==(const Iterator& it, std::default_sentinel_t) { return it.at_end(); }

 private:
  bool at_end() const;
  struct Source;
  std::shared_ptr<Source> source_;
};

template <>
inline constexpr bool keeps_last_batch<Dataset> = true;

namespace data {

struct MnistOptions {
  // Directory of the four IDX files, gzipped or not. Default: where Debian's package dataset-fashion-mnist puts them.
  std::string dir = "/usr/share/datasets/fashion-mnist";
  std::shared_ptr<FileSystem> files = posix_file_system();
};

// The "train" or "test" split of a dataset in MNIST's format: features "image", u8 (N, H, W, 1) as stored, and "label",
// u8 (N,) below 10. Errors: invalid_argument (unknown split), not_found (no such file), io, unsupported, corrupt_data
// (wrong magic, truncated, no samples, image and label counts that differ, a label out of range). Each names the file.
Dataset mnist(const std::string& split, const MnistOptions& options = {});

}  // namespace data
}  // namespace giro
