#include <giro/loop/log/history.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include <giro/loop/log/outputs.h>
#include <giro/runtime/error.h>

#include "runtime/internal/text.h"

namespace giro {
namespace {

constexpr std::array<std::string_view, 6> kElapsedFields{"steps",      "samples", "date",
                                                         "date_start", "time",    "step_samples"};
constexpr std::size_t kLogged = 8;  // orders of names that are known without a search

// Its entries but for arrays, as numbers of the host.
Logs as_numbers(const Logs& logs) {
  Logs numbers;
  for (std::size_t i = 0; i < logs.values().size(); ++i) {
    const Logs::Entry entry = logs.entries()[i];
    if (!is_array(entry)) numbers.add_entry(entry.collection, entry.name, logs.value(i));
  }
  return numbers;
}

}  // namespace

bool History::Layout::has(std::size_t column) const {
  return std::binary_search(columns.begin(), columns.end(), static_cast<std::uint32_t>(column));
}

void History::commit(const Elapsed& elapsed, const Logs& logs) {
  const std::span<const LogValue> values = logs.values();
  const bool are_numbers = std::ranges::all_of(values, [](const LogValue& value) { return value.number() != nullptr; });
  if (!are_numbers) return commit(elapsed, as_numbers(logs));

  const auto record = static_cast<std::uint32_t>(size());
  const Logged& logged = logged_as(logs.schema());
  for (std::size_t i = 0; i < values.size(); ++i) {
    Column& column = columns_[logged.columns[i]];
    column.values.push_back(*values[i].number());
    column.last_record = record;
  }
  if (runs_.empty() || runs_.back().layout != logged.layout) runs_.push_back({record, logged.layout});
  if (common_.empty() || common_.back().date_start != elapsed.date_start ||
      common_.back().step_samples != elapsed.step_samples) {
    common_.push_back({record, elapsed.date_start, elapsed.step_samples});
  }
  steps_.push_back(elapsed.steps);
  samples_.push_back(elapsed.samples);
  dates_.push_back(elapsed.date);
}

const History::Logged& History::logged_as(const LogSchema& schema) {
  for (const Logged& logged : logged_) {
    if (logged.schema == schema) return logged;
  }
  for (std::size_t i = 0; i < schema.size(); ++i) {
    if (schema[i].collection != "elapsed") continue;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the log entry '{}' is in a collection that the history fills itself", schema[i].path()));
  }
  Logged logged{schema, {}, 0};
  for (std::size_t i = 0; i < schema.size(); ++i) logged.columns.push_back(column_of(schema[i]));
  logged.layout = layout_of(logged.columns);
  if (logged_.size() < kLogged) return logged_.emplace_back(std::move(logged));
  oldest_logged_ = (oldest_logged_ + 1) % kLogged;
  return logged_[oldest_logged_] = std::move(logged);
}

std::uint32_t History::column_of(const LogSchema::Key& key) {
  if (const auto column = names_.find(key.collection, key.name)) return static_cast<std::uint32_t>(*column);
  columns_.emplace_back();
  names_.add(key.collection, key.name);
  return static_cast<std::uint32_t>(columns_.size() - 1);
}

std::uint32_t History::layout_of(std::vector<std::uint32_t> columns) {
  std::sort(columns.begin(), columns.end());
  const auto columns_of = [&](std::uint32_t layout) -> const auto& { return layouts_[layout].columns; };
  const auto place = std::ranges::lower_bound(layouts_in_order_, columns, {}, columns_of);
  if (place != layouts_in_order_.end() && columns_of(*place) == columns) return *place;
  LogSchema schema;
  for (const std::uint32_t column : columns) schema.add(names_[column].collection, names_[column].name);
  const auto layout = static_cast<std::uint32_t>(layouts_.size());
  layouts_in_order_.insert(place, layout);
  layouts_.push_back({std::move(columns), std::move(schema)});
  return layout;
}

std::size_t History::run_end(std::size_t run) const {
  return run + 1 < runs_.size() ? runs_[run + 1].first_record : size();
}

History::Source History::find(std::string_view key) const {
  const auto field_path = [](std::string_view field) { return fmt::format("elapsed.{}", field); };
  std::vector<Source> sources;
  std::vector<std::string> paths;
  for (std::size_t i = 0; i < kElapsedFields.size(); ++i) {
    const std::string path = field_path(kElapsedFields[i]);
    if (path == key) return {true, i};
    if (kElapsedFields[i] != key) continue;
    sources.push_back({true, i});
    paths.push_back(path);
  }
  for (std::size_t dot = key.find('.'); dot != key.npos; dot = key.find('.', dot + 1)) {
    if (const auto column = names_.find(key.substr(0, dot), key.substr(dot + 1))) return {false, *column};
  }
  for (std::size_t i = 0; i < names_.size(); ++i) {
    if (names_[i].name != key) continue;
    sources.push_back({false, i});
    paths.push_back(names_[i].path());
  }
  if (sources.size() > 1) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("'{}' is in several collections: '{}'", key, fmt::join(paths, "', '")));
  }
  if (sources.empty()) {
    if (size() == 0) {
      throw Error(ErrorCode::not_found, fmt::format("the history has no '{}': it has no records", key));
    }
    const bool is_path = key.find('.') != key.npos;
    std::vector<std::string> known;
    for (const auto& field : kElapsedFields) known.push_back(is_path ? field_path(field) : std::string(field));
    for (std::size_t i = 0; i < names_.size(); ++i) known.push_back(is_path ? names_[i].path() : names_[i].name);
    throw Error(ErrorCode::not_found, fmt::format("the history has no '{}'{}", key, suggestion(key, known)));
  }
  return sources.front();
}

void History::collect_into(std::span<const std::string> keys, std::span<std::vector<double>> values) const {
  std::vector<Source> sources;
  for (const std::string& key : keys) sources.push_back(find(key));

  std::vector<bool> has_all;  // by layout
  for (const Layout& layout : layouts_) {
    has_all.push_back(std::all_of(sources.begin(), sources.end(),
                                  [&](const Source& source) { return source.is_elapsed || layout.has(source.index); }));
  }
  std::size_t count = 0;
  for (std::size_t run = 0; run < runs_.size(); ++run) {
    if (has_all[runs_[run].layout]) count += run_end(run) - runs_[run].first_record;
  }

  for (std::size_t k = 0; k < sources.size(); ++k) {
    values[k].reserve(count);
    std::vector<bool> has;  // by layout
    for (const Layout& layout : layouts_) has.push_back(!sources[k].is_elapsed && layout.has(sources[k].index));
    std::size_t next = 0;  // value of the column
    for (std::size_t run = 0; run < runs_.size(); ++run) {
      const std::size_t begin = runs_[run].first_record, end = run_end(run), layout = runs_[run].layout;
      if (has_all[layout]) {
        if (sources[k].is_elapsed) {
          append_elapsed(sources[k].index, begin, end, values[k]);
        } else {
          const auto first = columns_[sources[k].index].values.begin() + static_cast<std::ptrdiff_t>(next);
          values[k].insert(values[k].end(), first, first + static_cast<std::ptrdiff_t>(end - begin));
        }
      }
      if (has[layout]) next += end - begin;
    }
  }
}

void History::append_elapsed(std::size_t field, std::size_t begin, std::size_t end, std::vector<double>& values) const {
  const std::string_view name = kElapsedFields[field];
  std::size_t common = common_of(begin);
  for (std::size_t i = begin; i < end; ++i) {
    if (common + 1 < common_.size() && common_[common + 1].first_record == i) ++common;
    const Common& shared = common_[common];
    values.push_back(name == "steps"          ? static_cast<double>(steps_[i])
                     : name == "samples"      ? static_cast<double>(samples_[i])
                     : name == "date"         ? dates_[i]
                     : name == "date_start"   ? shared.date_start
                     : name == "step_samples" ? static_cast<double>(shared.step_samples)
                                              : dates_[i] - shared.date_start);
  }
}

std::vector<double> History::column(std::string_view key) const { return std::move(collect(std::string(key)).front()); }

Logs History::latest(std::size_t first_record) const {
  Logs latest;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const Column& column = columns_[i];
    if (column.values.empty() || column.last_record < first_record) continue;
    latest.add_entry(names_[i].collection, names_[i].name, column.values.back());
  }
  return latest;
}

History::Iterator History::begin() const { return Iterator(*this, 0); }
History::Iterator History::end() const { return Iterator(*this, size()); }

History::Record History::operator[](std::size_t record) const {
  if (record >= size()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("record {} of a history of {}, expected one from 0 on", record, size()));
  }
  return *Iterator(*this, record);
}

History::Record History::back() const {
  if (size() == 0) throw Error(ErrorCode::invalid_argument, "the last record of a history of 0");
  const Layout& layout = layouts_[runs_.back().layout];
  std::vector<LogValue> values;
  for (const std::uint32_t column : layout.columns) values.emplace_back(columns_[column].values.back());
  return {elapsed_of(size() - 1, common_.back()), Logs(layout.schema, std::move(values))};
}

Elapsed History::elapsed_of(std::size_t record, const Common& common) const {
  return {.steps = steps_[record],
          .samples = samples_[record],
          .date = dates_[record],
          .date_start = common.date_start,
          .step_samples = common.step_samples};
}

std::size_t History::common_of(std::size_t record) const {
  const auto later = std::upper_bound(common_.begin(), common_.end(), record,
                                      [](std::size_t at, const Common& c) { return at < c.first_record; });
  return static_cast<std::size_t>(later - common_.begin()) - 1;
}

History::Iterator::Iterator(const History& history, std::size_t record)
    : history_(&history), record_(record), next_(record < history.size() ? history.columns_.size() : 0) {
  if (record == 0 || next_.empty()) return;
  const auto skip = [&](std::size_t records) {
    for (const std::uint32_t column : layout().columns) next_[column] += records;
  };
  for (; history.run_end(run_) <= record; ++run_) skip(history.run_end(run_) - history.runs_[run_].first_record);
  skip(record - history.runs_[run_].first_record);
  common_ = history.common_of(record);
}

History::Record History::Iterator::operator*() const {
  std::vector<LogValue> values;
  values.reserve(layout().columns.size());
  for (const std::uint32_t column : layout().columns) values.emplace_back(value(column));
  return {elapsed(), Logs(layout().schema, std::move(values))};
}

History::Iterator& History::Iterator::operator++() {
  const History& h = *history_;
  for (const std::uint32_t column : layout().columns) ++next_[column];
  ++record_;
  const auto begins = [&](const auto& parts, std::size_t part) {
    return part < parts.size() && parts[part].first_record == record_;
  };
  if (begins(h.runs_, run_ + 1)) ++run_;
  if (begins(h.common_, common_ + 1)) ++common_;
  return *this;
}

}  // namespace giro
