#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <giro/kernels/row_order.h>
#include <giro/loop/data/dataset.h>
#include <giro/loop/data/row_source.h>

namespace giro {

// Draws rows with replacement, each with a probability proportional to its weight. The row at a position is a pure
// function of (seed, epoch, position in the epoch); an epoch has as many draws as there are rows.
class RowSampler {
 public:
  // Error(invalid_argument) for weights that are negative, not finite or all 0.
  explicit RowSampler(const std::vector<double>& weights);
  std::int64_t operator()(std::uint64_t seed, std::int64_t position) const;
  const std::string& checksum() const noexcept { return checksum_; }  // of the weights

 private:
  std::vector<double> sums_;  // of the weights, up to and including each row's
  std::string checksum_;
};

// A dataset's rows, and the settings made by the chained calls.
struct Dataset::Plan {
  struct Feature {
    std::string name;
    std::shared_ptr<const RowSource> rows;

    BatchSpec::value_type spec(std::int64_t count) const {
      return {name, rows->dtype(), rows->row_shape().with_front(count)};
    }
    std::size_t row_bytes() const {
      return static_cast<std::size_t>(rows->row_shape().count()) * size_of(rows->dtype());
    }
  };
  std::vector<Feature> features;
  Batch::Features in_memory;  // the rows of all features, or empty
  // Checks the features. Errors: those of Dataset's constructors.
  static std::shared_ptr<const Plan> of(std::vector<Feature> features, Batch::Features in_memory);
  // A copy with a change.
  template <class F>
  std::shared_ptr<const Plan> with(F&& change) const {
    auto plan = std::make_shared<Plan>(*this);
    change(*plan);
    return plan;
  }

  RowOrder order;
  std::shared_ptr<const RowSampler> sampler;  // draws the rows, with the order's seed; null: rows follow the order
  std::optional<std::int64_t> epochs;
  std::optional<std::int64_t> batch_size;
  bool drop_remainder = false;
  std::int64_t first_batch = 0;
  std::vector<std::function<Batch(const Batch&)>> maps;
  std::size_t prefetch = 0;
  std::shared_ptr<ResidentRows> resident_rows;
  int rank = 0, ranks = 1;  // this rank, and how many share each batch
  struct Checksums {
    std::once_flag once;
    std::vector<std::string> of_features;
  };
  std::shared_ptr<Checksums> known = std::make_shared<Checksums>();

  // Keeps sums of a position and a batch within 63 bits.
  static constexpr std::int64_t kMaxRows = std::numeric_limits<std::int64_t>::max() / 4;

  std::int64_t rows_per_batch() const { return batch_size.value_or(1); }
  // Position of begin(), in rows since the start of the first epoch.
  std::int64_t first_row() const { return first_batch * rows_per_batch(); }

  // Rows in all batches, skipped ones included, or kForever.
  std::int64_t total_rows() const {
    if (epochs == kForever) return kForever;
    const std::int64_t total = order.size * epochs.value_or(1);
    return drop_remainder ? total - total % rows_per_batch() : total;
  }

  // Rows of the batch at a position: the last batch may have fewer than rows_per_batch(); 0 at the end.
  std::int64_t rows_at(std::int64_t position) const {
    const std::int64_t total = total_rows();
    return total == kForever ? rows_per_batch() : std::clamp<std::int64_t>(total - position, 0, rows_per_batch());
  }
  // One checksum per feature, over some of its rows. Computed once for all datasets that share these rows.
  const std::vector<std::string>& checksums() const;
  // Everything that must be the same on all ranks, one item per line.
  std::string description() const;

  // This rank's part of the batch at a position.
  std::int64_t rows_per_part() const { return rows_per_batch() / ranks; }
  std::int64_t part_at(std::int64_t position) const { return position + rank * rows_per_part(); }
  std::optional<BatchPart> part_of(std::int64_t position) const {
    if (ranks == 1) return std::nullopt;
    const std::int64_t samples = rows_at(position);
    const std::int64_t first = rank * rows_per_part();
    return BatchPart{ranks, samples, std::clamp<std::int64_t>(samples - first, 0, rows_per_part()), first};
  }
  // The rows at the positions from `position` on.
  void indices_at(std::int64_t position, std::span<std::int64_t> indices) const {
    for (std::int64_t& index : indices) {
      index = sampler ? (*sampler)(order.seed, position) : order(position);
      ++position;
    }
  }
};

}  // namespace giro
