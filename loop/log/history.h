#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <giro/loop/log/log_schema.h>
#include <giro/loop/log/logs.h>
#include <giro/loop/time/elapsed.h>
#include <giro/runtime/files/file_system.h>

namespace giro {

class Aggregation;
class Archive;

// The logs of a run, one record per step, stored by column: a number takes 8 bytes, and growing a column copies
// nothing. Each record also has the entries elapsed.steps, elapsed.samples, elapsed.date, elapsed.date_start,
// elapsed.time and elapsed.step_samples (the samples of its own step). A history keeps no arrays; see Outputs.
class History {
 public:
  struct Record {
    Elapsed elapsed;
    Logs logs;
  };
  class Iterator;

  History() = default;
  History(const History& other);
  History(History&&) noexcept = default;
  History& operator=(const History& other);
  History& operator=(History&&) noexcept = default;

  // Appends a record. Waits for values that have not arrived. Errors: shape_mismatch naming an entry that is neither a
  // scalar nor an output, invalid_argument for entries of a collection "elapsed", device. After an error the history is
  // unchanged.
  void commit(const Elapsed& elapsed, const Logs& logs);

  // The number of records.
  std::size_t size() const noexcept;

  // The values of each key over the records that have all of them, in order. A key is an entry's name, or
  // "collection.name". Error(not_found) naming the nearest key; Error(invalid_argument) for a name that several
  // collections have.
  template <class... Keys>
  std::array<std::vector<double>, sizeof...(Keys)> collect(const Keys&... keys) const {
    std::array<std::vector<double>, sizeof...(Keys)> values;
    const std::array<std::string, sizeof...(Keys)> names{std::string(keys)...};
    collect_into(names.data(), values.data(), names.size());
    return values;
  }

  // The same for one key.
  std::vector<double> column(std::string_view key) const;

  // The last value of each entry among the records from `first_record` on, in the order of first mention. Its cost
  // does not depend on the number of records.
  Logs latest(std::size_t first_record = 0) const;

  // The records in order: for (const auto& [elapsed, logs] : history), each with its entries in the order of first
  // mention. Valid until the next commit.
  Iterator begin() const&;
  Iterator end() const&;
  Iterator begin() const&& = delete;
  Iterator end() const&& = delete;
  // A record by its number, and the last record. Error(invalid_argument) if there is no such record. The cost of
  // operator[] grows with the number of times that the set of entries changed before that record.
  Record operator[](std::size_t record) const;
  Record back() const;

  // Stores the records as lines of the archive, so that a checkpoint does not write a long history again. Reading
  // replaces the current records; a NaN loses its sign and payload. Error(corrupt_data).
  void persist(Archive& archive);

  // The functions below replace a file completely or not at all, create its directory if needed, and write the text as
  // it is produced. Reading a written number gives the same bits. Errors: io.
  //
  // One line per record and one column per key: the elapsed steps, samples and time, then every entry. A metric's
  // column has the metric's name. Entries of other collections, and metrics named steps, samples or time or with a dot
  // in their names, have columns "collection.name". Cells are quoted as RFC 4180 requires. A missing value stays empty;
  // a NaN loses its sign and payload.
  void write_csv(const std::string& path, FileSystem& files = *posix_file_system()) const;
  // One line with a JSON object per record: {"elapsed": {"steps": 0, ...}, "metrics": {"loss": 0.5, ...}, ...}. JSON
  // has no NaN and no infinity: they are null, so that every reader takes the entry for a number; write_csv and
  // write_npy tell them apart.
  void write_jsonl(const std::string& path, FileSystem& files = *posix_file_system()) const;
  // The values of collect(key) as a NumPy array: format 1.0, float64. Also throws the errors of collect.
  void write_npy(std::string_view key, const std::string& path, FileSystem& files = *posix_file_system()) const;

 private:
  friend Logs aggregate(const History& history, const Aggregation& aggregation);
  struct Records;
  const Records& records() const;
  // The values of each of `count` keys. Takes pointers, since spans would slow down compiling programs that use this.
  void collect_into(const std::string* keys, std::vector<double>* values, std::size_t count) const;

  std::shared_ptr<Records> records_;  // null: no records yet
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
  friend struct History::Records;
  Iterator(const Records& records, std::size_t record);

  Elapsed elapsed() const;
  std::size_t layout() const;  // number of the record's layout
  // The record's layout must have the column.
  double value(std::size_t column) const;

  const Records* records_ = nullptr;
  std::size_t record_ = 0;
  std::size_t run_ = 0;
  std::size_t common_ = 0;
  std::vector<std::size_t> next_;  // per column: how many values come before this record
};

inline History history() { return {}; }

}  // namespace giro
