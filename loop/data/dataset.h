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
#include <giro/loop/data/current_batch.h>
#include <giro/runtime/device.h>
#include <giro/runtime/file_system.h>
#include <giro/runtime/host_array.h>

namespace giro {

class Archive;
class Partitioner;

// Rows of named features as a stream of batches: a C++20 input range of Batch, configured by chained calls that each
// return a new value sharing the rows:
//
//   auto train = data::mnist("train").shuffle(0).repeat().batch(32).prefetch(2);
//
//   Dataset points({{"x", {xs, {n, 2}}}, {"y", ys}});  // of vectors
//
// The order of batches is a pure function of (seed, epoch, position): nothing is buffered to shuffle, and skipping is
// O(1). With repeat, a batch may straddle two epochs; without it, the last batch holds the rows that are left.
// Every begin() starts over, at what skip() says.
class Dataset {
 public:
  class Iterator;
  using Arrays = std::vector<std::pair<std::string, HostArray>>;

  // Rows (N, ...) of each feature, all of one N >= 1; a std::vector converts to an array of shape (N,).
  // Errors: invalid_argument (no feature, or a name empty or repeated), shape_mismatch.
  explicit Dataset(const Arrays& features);
  // The same of host memory that `owner` keeps alive. Error(device_mismatch) besides, if it is not host memory.
  explicit Dataset(Batch::Features rows, std::shared_ptr<const void> owner = nullptr);

  // Each epoch in an order of its own, keyed by (seed, epoch). Before batch, else Error(invalid_argument).
  Dataset shuffle(std::uint64_t seed) const;
  // Epoch after epoch: `epochs` of them, at least 1, or without end. Before batch, once.
  Dataset repeat(std::int64_t epochs = kForever) const;
  // 1 <= size <= number of rows, else Error(invalid_argument) naming both. Once.
  Dataset batch(std::int64_t size, bool drop_remainder = false) const;
  // Applies `f` to every batch on the host, in order; its result may share memory with its argument. After batch.
  Dataset map(std::function<Batch(const Batch&)> f) const;
  // Makes batches ahead on a thread of their own, up to `depth` of them. After batch. What map throws is rethrown by
  // the iterator, at the batch it belongs to.
  Dataset prefetch(std::size_t depth) const;
  // Leaves out the first batches. After batch.
  Dataset skip(std::int64_t batches) const;
  // Copies the rows to the device, where steps gather their batches. After batch; excludes map, and prefetch has
  // nothing left to do. Errors: invalid_argument, device (there is no such device), out_of_memory.
  Dataset to(Device device) const;

  // This rank's part of each batch, of equal size on all: the batches of the ranks are together those of the dataset
  // that is not partitioned. A last batch that is short is filled from the first rank on, and counts as what it holds
  // (BatchPart). After batch, once; null changes nothing. A call of all ranks. Errors: invalid_argument if the ranks do
  // not divide the batch; communication if they have not the same rows in the same order, of which some are compared.
  Dataset partition(const std::shared_ptr<const Partitioner>& partitioner) const;

  static constexpr std::int64_t kForever = -1;

  std::int64_t num_rows() const;
  // The rows of each feature, (N, ...) in host memory, in their own order; of a dataset that lies on a device, too.
  // Valid as long as the dataset or a copy of it lives.
  const Batch::Features& rows() const noexcept;
  // Which of them the given batch holds, or this rank's part of it, in its order; batches count from 0 at begin(). In a
  // loop from the beginning, indices(elapsed.steps) are those of the step's batch, before map. Error(invalid_argument)
  // if there is no such batch.
  std::vector<std::int64_t> indices(std::int64_t batch) const;
  // Batches from begin() to end(), or kForever.
  std::int64_t num_batches() const;
  // What a full batch looks like, after map, to which it shows the first batch. A dataset that was not batched has
  // batches of one.
  BatchSpec spec() const;

  // Batches left out by skip(), and the iterator that stands at a batch, counted from the one before any was left out:
  // for a run that is resumed.
  std::int64_t first_batch() const;
  Iterator begin_at(std::int64_t batch) const;
  // What has to be the same in a run that is resumed: the features and the rows' number, of which up to 511, evenly
  // spread, are compared by a checksum; their order, and the size of a batch. What map does is not looked at.
  // Error(invalid_argument) if it is not.
  void persist(Archive& archive) const;

  Iterator begin() const;
  std::default_sentinel_t end() const { return {}; }

 private:
  struct Plan;
  explicit Dataset(std::shared_ptr<const Plan> plan);
  std::shared_ptr<const Plan> plan_;
};

// Move-only input iterator: holds the current batch, and the prefetching thread where there is one. It is at the end
// once making a batch threw. At the end it still holds the last batch.
class Dataset::Iterator {
 public:
  using value_type = Batch;
  using difference_type = std::ptrdiff_t;

  Iterator();
  explicit Iterator(std::shared_ptr<const Plan> plan);
  Iterator(Iterator&&) noexcept;
  Iterator& operator=(Iterator&&) noexcept;
  ~Iterator();

  // Valid until the next batch has been made; a copy of it stays.
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
  // Where the four IDX files lie, gzipped or not. Default: Debian's package dataset-fashion-mnist.
  std::string dir = "/usr/share/datasets/fashion-mnist";
  std::shared_ptr<FileSystem> files = posix_file_system();
};

// The "train" or "test" split of a data set in MNIST's format: features "image", u8 (N, H, W, 1) as stored, and
// "label", u8 (N,) below 10. Errors: invalid_argument (unknown split), not_found (no such file), io, unsupported,
// corrupt_data (wrong magic, truncated, no samples, counts that differ, a label out of range), each naming the file.
Dataset mnist(const std::string& split, const MnistOptions& options = {});

}  // namespace data
}  // namespace giro
