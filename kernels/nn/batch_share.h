#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include <giro/runtime/not_copied.h>

namespace giro {

class Partitioner;

// A call of a step on this rank's part of a batch: its weight relative to an even part, its first row in the whole
// batch, its rows, and the partitioner of the ranks, or null. Applies to what this thread queues while this object
// exists.
class BatchShare : detail::NotCopied {
 public:
  BatchShare(double weight, std::int64_t first_row, std::int64_t rows,
             std::shared_ptr<const Partitioner> ranks = nullptr) noexcept
      : outer_(std::exchange(current_, Values{weight, first_row, rows, 0, std::move(ranks), 1})) {}
  // A call of a loss in a step, or outside of steps: for one of `parts` parts of the rank's rows.
  BatchShare(std::shared_ptr<const Partitioner> ranks, int parts) noexcept : outer_(current_), is_within_step_(true) {
    current_.ranks = std::move(ranks);
    current_.parts = parts;
  }
  ~BatchShare() {
    if (is_within_step_) outer_.draws = current_.draws;
    current_ = std::move(outer_);
  }

  static double weight() noexcept { return current_.weight; }
  static std::int64_t first_row() noexcept { return current_.first_row; }
  static std::int64_t rows() noexcept { return current_.rows; }
  static const std::shared_ptr<const Partitioner>& ranks() noexcept { return current_.ranks; }
  static int parts() noexcept { return current_.parts; }
  // Numbers `count` draws of the call, so that they differ; returns the first. Outside of steps it is always 0.
  static std::int64_t take_draws(std::int64_t count) noexcept {
    return current_.draws < 0 ? 0 : std::exchange(current_.draws, current_.draws + count);
  }

 private:
  struct Values {
    double weight;
    std::int64_t first_row, rows;  // 0 if unknown
    std::int64_t draws;            // so far; negative outside of steps
    std::shared_ptr<const Partitioner> ranks;
    int parts;
  };
  Values outer_;
  bool is_within_step_ = false;
  static inline constinit thread_local Values current_{1, 0, 0, -1, nullptr, 1};
};

}  // namespace giro
