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

// The data of a history, by column. A record is given by its number. Values are not moved as the history grows.
struct History::Records {
  struct Column {
    std::deque<double> values;
    std::uint32_t last_record = 0;
  };
  // The columns that a record has, sorted.
  struct Layout {
    std::vector<std::uint32_t> columns;
    LogSchema schema;  // of these columns

    bool has(std::size_t column) const;
  };
  // Names in the order in which they were logged.
  struct Logged {
    LogSchema schema;
    std::vector<std::uint32_t> columns;  // of the entries
    std::uint32_t layout;
  };
  // Consecutive records with the same layout, up to the first record of the next run.
  struct Run {
    std::uint32_t first_record;
    std::uint32_t layout;
  };
  // Fields that are equal in consecutive records.
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
  static constexpr Source kStepSamples{.is_elapsed = true, .index = 5};
  std::size_t size() const noexcept { return steps.size(); }
  // `numbers` must be host numbers.
  void commit(const Elapsed& elapsed, const Logs& numbers);
  const Logged& logged_as(const LogSchema& schema);
  std::uint32_t column_of(const LogSchema::Key& key, LogSchema::Role role);
  std::uint32_t layout_of(std::vector<std::uint32_t> sorted);
  std::size_t run_end(std::size_t run) const;
  std::size_t common_of(std::size_t record) const;
  Elapsed elapsed_of(std::size_t record, const Common& shared) const;
  Source find(std::string_view key) const;
  // The values of each source over the records that have all of them.
  std::vector<std::vector<double>> collect(const std::vector<Source>& sources) const;
  void append_elapsed(std::size_t field, std::size_t begin, std::size_t end, std::vector<double>& values) const;
  // Writes the records from `first` on for a checkpoint, one line each; reads them back. `known` has the names of each
  // layout.
  std::string lines_from(std::size_t first) const;
  void read_lines(std::string_view text, const std::vector<Logs>& known);

  std::deque<std::int64_t> steps;
  std::deque<std::int64_t> samples;
  std::deque<double> dates;
  std::deque<Common> common;
  LogSchema names;  // of the columns
  std::deque<Column> columns;
  std::vector<Layout> layouts;
  std::vector<std::uint32_t> layouts_in_order;  // sorted by their columns
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
