#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <giro/loop/log/log_schema.h>
#include <giro/loop/log/logs.h>
#include <giro/loop/time/elapsed.h>

namespace giro {

// The logs of a run, a record a step, kept by column: a number takes 8 bytes, and nothing is copied as columns grow.
// Each record also has the entries elapsed.steps, elapsed.samples, elapsed.date, elapsed.date_start and elapsed.time.
class History {
 public:
  struct Record {
    Elapsed elapsed;
    Logs logs;
  };
  class Iterator;

  // Appends a record. Waits for values that have not arrived. Outputs that are arrays are left out: Outputs keeps
  // them. Errors: shape_mismatch naming another entry that is no scalar, invalid_argument for entries of a collection
  // "elapsed", device; the history is then what it was.
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

  // The last value of each entry among the records from `first_record` on, in the order of first mention. Its cost
  // does not depend on the number of records.
  Logs latest(std::size_t first_record = 0) const;

  // The records in order: for (const auto& [elapsed, logs] : history). Valid until the next commit.
  Iterator begin() const;
  Iterator end() const;

  // The files below are replaced at once or not at all, and written as they are made. Numbers are written so that
  // reading them gives the same bits. Errors: io; not_found if there is no such directory.
  //
  // One line a record, a column a key: the elapsed steps, samples and time, then every entry by its name, or by
  // "collection.name" where names clash, quoted where RFC 4180 wants it. What a record does not have stays empty.
  void write_csv(const std::string& path) const;
  // One JSON object a line and record: {"elapsed": {"steps": 0, ...}, "metrics": {"loss": 0.5, ...}, ...}. JSON has
  // no numbers that are not finite, so they are the strings "NaN", "Infinity" and "-Infinity", which Python's float()
  // and JavaScript's Number() read; the sign and payload of a NaN are lost.
  void write_jsonl(const std::string& path) const;
  // The values that collect(key) gives as an array of NumPy's, format 1.0, float64. Errors of collect besides.
  void write_npy(std::string_view key, const std::string& path) const;

 private:
  struct Column {
    LogSchema::Key key;
    std::deque<double> values;
    std::uint32_t last_record = 0;
  };
  struct Layout {
    const LogSchema* schema;
    std::vector<std::uint32_t> columns;  // of its entries

    bool has(std::size_t column) const;
  };
  // Consecutive records of one layout, up to the next run's first.
  struct Run {
    std::uint32_t first_record;
    std::uint32_t layout;
  };
  // What consecutive records have in common.
  struct DateStart {
    std::uint32_t first_record;
    double date_start;
  };
  // Where the values of a key are: in a column, or in a field of Elapsed.
  struct Source {
    bool is_elapsed;
    std::size_t index;
  };
  std::uint32_t layout_of(const LogSchema& schema);
  std::uint32_t column_of(const LogSchema::Key& key);
  std::size_t run_end(std::size_t run) const;
  Source find(std::string_view key) const;
  void collect_into(std::span<const std::string> keys, std::span<std::vector<double>> values) const;
  void append_elapsed(std::size_t field, std::size_t begin, std::size_t end, std::vector<double>& values) const;

  std::deque<std::int64_t> steps_;
  std::deque<std::int64_t> samples_;
  std::deque<double> dates_;
  std::deque<DateStart> date_starts_;
  std::deque<Column> columns_;
  std::vector<Layout> layouts_;
  std::deque<Run> runs_;
  std::vector<double> row_;  // the values being committed
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

  Elapsed elapsed() const;
  const Layout& layout() const { return history_->layouts_[history_->runs_[run_].layout]; }
  // In a column that the layout has.
  double value(std::size_t column) const { return history_->columns_[column].values[next_[column]]; }

  const History* history_ = nullptr;
  std::size_t record_ = 0;
  std::size_t run_ = 0;
  std::size_t date_start_ = 0;
  std::vector<std::size_t> next_;  // of each column, how many values lie before this record
};

inline History history() { return {}; }

}  // namespace giro
