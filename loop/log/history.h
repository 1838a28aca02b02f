#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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

  History() noexcept;
  History(const History& other);
  History(History&&) noexcept;
  History& operator=(const History& other);
  History& operator=(History&&) noexcept;
  ~History();

  // Appends a record. Waits for values that have not arrived. Errors: shape_mismatch naming an entry that is no scalar
  // and no output, invalid_argument for entries of a collection "elapsed", device; the history is then what it was.
  void commit(const Elapsed& elapsed, const Logs& logs);

  // Records.
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

  // The files below are replaced at once or not at all, in a directory that is made where there is none, and written
  // as they are made. Numbers are written so that reading them gives the same bits. Errors: io.
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
  struct Records;
  const Records& records() const;
  // The values of each of `count` keys. By pointers: a span of an array costs a program that includes this too much.
  void collect_into(const std::string* keys, std::vector<double>* values, std::size_t count) const;

  std::shared_ptr<Records> records_;  // null: none so far
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
  std::size_t layout() const;  // its number
  // In a column that the layout has.
  double value(std::size_t column) const;

  const Records* records_ = nullptr;
  std::size_t record_ = 0;
  std::size_t run_ = 0;
  std::size_t common_ = 0;
  std::vector<std::size_t> next_;  // of each column, how many values lie before this record
};

inline History history() { return {}; }

}  // namespace giro
