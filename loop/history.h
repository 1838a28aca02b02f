#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <giro/loop/elapsed.h>
#include <giro/loop/logs.h>

namespace giro {

// The logs of a run, a record a step, kept by column: a number takes 8 bytes. Each record also has the entries
// elapsed.steps, elapsed.samples, elapsed.date, elapsed.date_start and elapsed.time.
class History {
 public:
  // Appends a record. Waits for values that have not arrived.
  void commit(const Elapsed& elapsed, const Logs& logs);

  // Records.
  std::size_t size() const noexcept { return steps_.size(); }

  // The last value of every entry among the records from `first_record` on.
  Logs latest(std::size_t first_record = 0) const;

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

  // One line a record, a column a key: the elapsed steps, samples and time, then every entry by its name, or by
  // "collection.name" where names clash. Numbers are written so that reading them gives the same bits; what a record
  // does not have stays empty. Replaces the file at once or not at all. Errors: io; not_found if there is no such
  // directory.
  void write_csv(const std::string& path) const;

 private:
  struct Column {
    std::string collection;
    std::string name;
    std::vector<double> values;
    std::vector<std::uint32_t> records;  // of the values; empty while they are those of records 0, 1, 2, ...

    std::string path() const { return collection + "." + name; }
  };
  Column& column_of(const Logs::Entry& entry, std::size_t hint);
  Column elapsed_column(const std::string& name) const;
  const Column* find(const std::string& key) const;
  void collect_into(std::span<const std::string> keys, std::span<std::vector<double>> values) const;

  std::vector<std::int64_t> steps_;
  std::vector<std::int64_t> samples_;
  std::vector<double> dates_;
  double date_start_ = 0;
  std::vector<Column> columns_;
};

inline History history() { return {}; }

}  // namespace giro
