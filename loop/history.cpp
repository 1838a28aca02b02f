#include <giro/loop/history.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include <giro/runtime/error.h>
#include <giro/runtime/file_system.h>

#include "runtime/text.h"

namespace giro {
namespace {
const std::vector<std::string> kElapsedNames{"steps", "samples", "date", "date_start", "time"};
}

void History::commit(const Elapsed& elapsed, const Logs& logs) {
  const auto record = static_cast<std::uint32_t>(size());
  for (std::size_t i = 0; i < logs.entries().size(); ++i) {
    const Logs::Entry& entry = logs.entries()[i];
    const double value = entry.value.value();
    Column& column = column_of(entry, i);
    const bool gap = column.records.empty() && column.values.size() != record;
    if (gap) {
      column.records.resize(column.values.size());
      std::iota(column.records.begin(), column.records.end(), 0u);
    }
    if (gap || !column.records.empty()) column.records.push_back(record);
    column.values.push_back(value);
  }
  steps_.push_back(elapsed.steps);
  samples_.push_back(elapsed.samples);
  dates_.push_back(elapsed.date);
  date_start_ = elapsed.date_start;
}

// Records mostly have the same entries in the same order, so the entry's position tells its column.
History::Column& History::column_of(const Logs::Entry& entry, std::size_t hint) {
  const auto same = [&](const Column& c) { return c.name == entry.name && c.collection == entry.collection; };
  if (hint < columns_.size() && same(columns_[hint])) return columns_[hint];
  const auto found = std::find_if(columns_.begin(), columns_.end(), same);
  if (found != columns_.end()) return *found;
  columns_.push_back({entry.collection, entry.name, {}, {}});
  return columns_.back();
}

Logs History::latest(std::size_t first_record) const {
  Logs logs;
  for (const Column& column : columns_) {
    const std::size_t record = column.records.empty() ? column.values.size() - 1 : column.records.back();
    if (!column.values.empty() && record >= first_record) {
      logs.add_entry(column.collection, column.name, column.values.back());
    }
  }
  return logs;
}

History::Column History::elapsed_column(const std::string& name) const {
  Column column{"elapsed", name, std::vector<double>(size()), {}};
  for (std::size_t i = 0; i < size(); ++i) {
    column.values[i] = name == "steps"        ? static_cast<double>(steps_[i])
                       : name == "samples"    ? static_cast<double>(samples_[i])
                       : name == "date"       ? dates_[i]
                       : name == "date_start" ? date_start_
                                              : dates_[i] - date_start_;
  }
  return column;
}

const History::Column* History::find(const std::string& key) const {
  const Column* found = nullptr;
  for (const Column& column : columns_) {
    if (column.path() == key) return &column;
    if (column.name != key) continue;
    if (found != nullptr) {
      throw Error(ErrorCode::invalid_argument, fmt::format("'{}' is in several collections: '{}' and '{}'", key,
                                                           found->path(), column.path()));
    }
    found = &column;
  }
  return found;
}

void History::collect_into(std::span<const std::string> keys, std::span<std::vector<double>> values) const {
  std::vector<Column> elapsed;
  elapsed.reserve(keys.size());
  std::vector<const Column*> columns;
  for (const std::string& key : keys) {
    const Column* column = find(key);
    const std::string name = key.starts_with("elapsed.") ? key.substr(8) : key;
    const bool is_elapsed = std::count(kElapsedNames.begin(), kElapsedNames.end(), name) > 0;
    if (column != nullptr && is_elapsed && column->path() != key) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("'{}' is in several collections: 'elapsed.{}' and '{}'", key, name, column->path()));
    }
    if (column == nullptr && is_elapsed) column = &elapsed.emplace_back(elapsed_column(name));
    if (column == nullptr) {
      const bool is_path = key.find('.') != key.npos;
      std::vector<std::string> known;
      for (const std::string& other : kElapsedNames) known.push_back(is_path ? "elapsed." + other : other);
      for (const Column& other : columns_) known.push_back(is_path ? other.path() : other.name);
      throw Error(ErrorCode::not_found, fmt::format("the history has no '{}'{}", key, suggestion(key, known)));
    }
    columns.push_back(column);
  }

  const auto record_at = [](const Column& c, std::size_t i) {
    return c.records.empty() ? static_cast<std::uint32_t>(i) : c.records[i];
  };
  std::vector<std::size_t> next(keys.size(), 0);
  for (std::uint32_t record = 0;;) {
    bool all = true;
    for (std::size_t k = 0; k < columns.size(); ++k) {
      while (next[k] < columns[k]->values.size() && record_at(*columns[k], next[k]) < record) ++next[k];
      if (next[k] == columns[k]->values.size()) return;
      if (const std::uint32_t there = record_at(*columns[k], next[k]); there != record) {
        record = there;
        all = false;
        break;
      }
    }
    if (!all) continue;
    if (columns.empty()) return;
    for (std::size_t k = 0; k < columns.size(); ++k) values[k].push_back(columns[k]->values[next[k]]);
    ++record;
  }
}

void History::write_csv(const std::string& path) const {
  std::map<std::string, int> uses{{"steps", 1}, {"samples", 1}, {"time", 1}};
  for (const Column& column : columns_) ++uses[column.name];
  std::string text = "steps,samples,time";
  for (const Column& column : columns_) text += "," + (uses[column.name] > 1 ? column.path() : column.name);
  text += "\n";

  std::vector<std::size_t> next(columns_.size(), 0);
  for (std::size_t record = 0; record < size(); ++record) {
    text += fmt::format("{},{},{}", steps_[record], samples_[record], dates_[record] - date_start_);
    for (std::size_t k = 0; k < columns_.size(); ++k) {
      const Column& column = columns_[k];
      const bool has = next[k] < column.values.size() &&
                       (column.records.empty() ? next[k] : column.records[next[k]]) == record;
      text += has ? fmt::format(",{}", column.values[next[k]++]) : ",";
    }
    text += "\n";
  }
  replace_file(*posix_file_system(), path, text);
}

}  // namespace giro
