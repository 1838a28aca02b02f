#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include <giro/loop/log/history.h>
#include <giro/loop/log/log_schema.h>
#include <giro/loop/log/logs.h>
#include <giro/loop/time/elapsed.h>

namespace giro {

// What a history keeps, by column. A record is a number, and none of this is moved as it grows.
struct History::Records {
  struct Column {
    std::deque<double> values;
    std::uint32_t last_record = 0;
  };
  // The columns that a record has, in order.
  struct Layout {
    std::vector<std::uint32_t> columns;
    LogSchema schema;  // of these

    bool has(std::size_t column) const;
  };
  // Names as they were logged, in whatever order.
  struct Logged {
    LogSchema schema;
    std::vector<std::uint32_t> columns;  // of its entries
    std::uint32_t layout;
  };
  // Consecutive records of one layout, up to the next run's first.
  struct Run {
    std::uint32_t first_record;
    std::uint32_t layout;
  };
  // What consecutive records have in common.
  struct Common {
    std::uint32_t first_record;
    double date_start;
    std::int64_t step_samples;
  };
  // Where the values of a key are: in a column, or in a field of Elapsed.
  struct Source {
    bool is_elapsed;
    std::size_t index;
  };
  std::size_t size() const noexcept { return steps.size(); }
  // Of numbers of the host.
  void commit(const Elapsed& elapsed, const Logs& numbers);
  const Logged& logged_as(const LogSchema& schema);
  std::uint32_t column_of(const LogSchema::Key& key);
  std::uint32_t layout_of(std::vector<std::uint32_t> sorted);
  std::size_t run_end(std::size_t run) const;
  std::size_t common_of(std::size_t record) const;
  Elapsed elapsed_of(std::size_t record, const Common& shared) const;
  Source find(std::string_view key) const;
  void append_elapsed(std::size_t field, std::size_t begin, std::size_t end, std::vector<double>& values) const;
  // As a checkpoint has them, a line each; and back, of records that have the names of one of the layouts.
  std::string lines_from(std::size_t first) const;
  void read_lines(std::string_view text, const std::vector<Logs>& known);

  std::deque<std::int64_t> steps;
  std::deque<std::int64_t> samples;
  std::deque<double> dates;
  std::deque<Common> common;
  LogSchema names;  // of the columns
  std::deque<Column> columns;
  std::vector<Layout> layouts;
  std::vector<std::uint32_t> layouts_in_order;  // of their columns
  std::deque<Run> runs;
  std::vector<Logged> logged;  // the latest few
  std::size_t oldest_logged = 0;
};

inline Elapsed History::Iterator::elapsed() const { return records_->elapsed_of(record_, records_->common[common_]); }
inline std::size_t History::Iterator::layout() const { return records_->runs[run_].layout; }
inline double History::Iterator::value(std::size_t column) const {
  return records_->columns[column].values[next_[column]];
}

}  // namespace giro
