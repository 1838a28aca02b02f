#pragma once

#include <cstddef>
#include <cstdint>

#include <giro/runtime/not_copied.h>

#include "kernels/cpu/expression_plan.h"

namespace giro::cpu {

// One thread's work on a plan, in its own plan.memory bytes. `arrays`: the addresses of the plan's arrays.
class Worker : detail::NotCopied {
 public:
  // A worker with a `leader` uses its values of rows, and runs parts of its rows.
  Worker(const Plan& plan, std::byte* const* arrays, std::byte* memory, const Worker* leader = nullptr);
  ~Worker() {
    if (plan_.streams) end_of_streams();
  }

  // Runs an independent unit: a tile of elements, or some rows. Several tiles at once if plan.joins_tiles.
  void run(std::int64_t unit, std::int64_t units = 1);

  // run() in stages, for threads that share the rows of a unit. Between begin() and end(), for each pass: run_part() on
  // parts of the rows' elements, which adds to `totals` (unit_rows for each of the pass's reductions), then
  // finish_pass() with the merged totals.
  void begin(std::int64_t unit, std::int64_t units = 1);
  void run_part(const Plan::Pass& pass, std::int64_t first, std::int64_t last, Total* totals);
  void finish_pass(const Plan::Pass& pass, const Total* totals);
  void end();

  std::int64_t number_of_rows() const { return rows_.n; }

 private:
  // A range of elements or rows: its first index along each axis, and the axes that it covers, [0, last).
  struct Range {
    std::int64_t index[kMaxAxes];
    std::int64_t first, n;  // the first one's number in the order of these axes, and how many
    int last;
  };
  // What a slot holds.
  struct Note {
    std::int64_t offset, n;
  };

  void set_range(Range& at, std::int64_t first, std::int64_t n, int last) const;
  Range elements_from(std::int64_t element, std::int64_t n) const;
  bool is_within_axis(const Range& at) const { return at.index[at.last - 1] + at.n <= plan_.sizes[at.last - 1]; }
  std::int64_t offset_of(const Plan::Access& access, const Range& at) const;
  template <class F>
  void for_each_run(const Plan::Access& access, const Range& at, std::int64_t offset, const F& f) const;

  bool in_bounds(const Plan::Access& read, const Range& at) const;
  void load(const Plan::Access& read, const Range& at);
  void load_in_bounds(const Plan::Access& read, const Range& at, std::int64_t offset, std::byte* to) const;
  void store(const Plan::Access& write, const Range& at);
  std::byte* address(const Plan::Access& access, std::int64_t offset) const {
    return arrays_[access.array] + offset * static_cast<std::int64_t>(access.size);
  }
  void step(const Plan::Step& step, std::int64_t elements);
  void run_tile(const Plan::Pass& pass, const Range& at, std::int64_t element);
  std::byte* slot(int value) const { return memory_ + plan_.slots[static_cast<std::size_t>(value)].offset; }
  Total* totals(int half, int reduction) const;
  std::byte* lanes(int reduction) const { return memory_ + plan_.lanes_offset + plan_.lanes_bytes * reduction; }

  const Plan& plan_;
  std::byte* const* arrays_;
  std::byte* memory_;
  const std::byte** at_;  // each value's tile
  Note* notes_;
  Range rows_{};
  std::int64_t first_row_ = 0;
};

}  // namespace giro::cpu
