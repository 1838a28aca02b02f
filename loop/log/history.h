#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <giro/loop/log/lazy_deque.h>
#include <giro/loop/log/log_schema.h>
#include <giro/loop/log/logs.h>
#include <giro/loop/time/elapsed.h>
#include <giro/runtime/file_system.h>

namespace giro {

class Archive;

// The logs of a run, a record a step, kept by column: a number takes 8 bytes, and nothing is copied as columns grow.
// Each record also has the entries elapsed.steps, elapsed.samples, elapsed.date, elapsed.date_start, elapsed.time and
// elapsed.step_samples, the samples of its own step. Arrays are not for a history: see Outputs.
class History {
 public:
  struct Record {
    Elapsed elapsed;
    Logs logs;
  };
  class Iterator;

  // Appends a record. Waits for values that have not arrived. Errors: shape_mismatch naming an entry that is no scalar
  // and no output, invalid_argument for entries of a collection "elapsed", device; the history is then what it was.
  void commit(const Elapsed& elapsed, const Logs& logs);

  // Records.
  std::size_t size() const noexcept { return steps_.size(); }

  // The values of each key over the records that have all of them, in order. A key is an entry's name, or
  // "collection.name". Error(not_found) naming the nearest key; Error(invalid_argument) for a name that several
  // collections have.
  template <class... Keys>
  std::array<std::vector<double>, sizeof...(Keys)> collect(const Keys&... keys) const {
    std::array<std::vector<double>, sizeof...(Keys)> values;
    const std::array<std::string, sizeof...(Keys)> names{std::string(keys)...};
    collect_into(names, values);
    return values;
  }

  // The same of one key.
  std::vector<double> column(std::string_view key) const;

  // The last value of each entry among the records from `first_record` on, in the order of first mention. Its cost
  // does not depend on the number of records.
  Logs latest(std::size_t first_record = 0) const;

  // The records in order: for (const auto& [elapsed, logs] : history), each with its entries in the order of first
  // mention. Valid until the next commit.
  Iterator begin() const;
  Iterator end() const;
  // One of them, and the last. Error(invalid_argument) if there are not as many. The cost of one that is not the last
  // grows with the times that the names of the entries have changed before it.
  Record operator[](std::size_t record) const;
  Record back() const;

  // The records as lines of the archive, so that a long history is not written again at each checkpoint. What is read
  // takes the place of what was there; the sign and payload of a NaN are lost. Error(corrupt_data).
  void persist(Archive& archive);

  // The files below are replaced at once or not at all, and written as they are made. Numbers are written so that
  // reading them gives the same bits. Errors: io; not_found if there is no such directory.
  //
  // One line a record, a column a key: the elapsed steps, samples and time, then every entry: a metric by its name,
  // what is in another collection as "collection.name", as a metric is that is called steps, samples or time or has a
  // dot in its name. Quoted where RFC 4180 wants it. What a record does not have stays empty; a NaN loses its sign and
  // payload.
  void write_csv(const std::string& path, FileSystem& files = *posix_file_system()) const;
  // One JSON object a line and record: {"elapsed": {"steps": 0, ...}, "metrics": {"loss": 0.5, ...}, ...}. JSON has
  // no numbers that are not finite, so they are the strings "NaN", "Infinity" and "-Infinity", which Python's float()
  // and JavaScript's Number() read; the sign and payload of a NaN are lost.
  void write_jsonl(const std::string& path, FileSystem& files = *posix_file_system()) const;
  // The values that collect(key) gives as an array of NumPy's, format 1.0, float64. Errors of collect besides.
  void write_npy(std::string_view key, const std::string& path, FileSystem& files = *posix_file_system()) const;

 private:
  struct Column {
    detail::LazyDeque<double> values;
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
  std::string lines_from(std::size_t first) const;
  void read_lines(std::string_view text, const std::vector<Logs>& layouts);
  const Logged& logged_as(const LogSchema& schema);
  std::uint32_t column_of(const LogSchema::Key& key);
  std::uint32_t layout_of(std::vector<std::uint32_t> columns);
  std::size_t run_end(std::size_t run) const;
  std::size_t common_of(std::size_t record) const;
  Elapsed elapsed_of(std::size_t record, const Common& common) const;
  Source find(std::string_view key) const;
  void collect_into(std::span<const std::string> keys, std::span<std::vector<double>> values) const;
  void append_elapsed(std::size_t field, std::size_t begin, std::size_t end, std::vector<double>& values) const;

  detail::LazyDeque<std::int64_t> steps_;
  detail::LazyDeque<std::int64_t> samples_;
  detail::LazyDeque<double> dates_;
  detail::LazyDeque<Common> common_;
  LogSchema names_;  // of the columns
  detail::LazyDeque<Column> columns_;
  std::vector<Layout> layouts_;
  std::vector<std::uint32_t> layouts_in_order_;  // of their columns
  detail::LazyDeque<Run> runs_;
  std::vector<Logged> logged_;  // the latest few
  std::size_t oldest_logged_ = 0;
};

// An input iterator over the records of a history.
class History::Iterator {
 public:
  using value_type = Record;
  using difference_type = std::ptrdiff_t;

  Iterator() = default;
  Record operator*() const;
  Iterator& operator++();
  void operator++(int) { ++*this; }
  friend bool operator==(const Iterator& a, const Iterator& b) { return a.record_ == b.record_; }

 private:
  friend class History;
  Iterator(const History& history, std::size_t record);

  Elapsed elapsed() const { return history_->elapsed_of(record_, history_->common_[common_]); }
  const Layout& layout() const { return history_->layouts_[history_->runs_[run_].layout]; }
  // In a column that the layout has.
  double value(std::size_t column) const { return history_->columns_[column].values[next_[column]]; }

  const History* history_ = nullptr;
  std::size_t record_ = 0;
  std::size_t run_ = 0;
  std::size_t common_ = 0;
  std::vector<std::size_t> next_;  // of each column, how many values lie before this record
};

inline History history() { return {}; }

}  // namespace giro
