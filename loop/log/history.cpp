#include <giro/loop/log/history.h>

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "loop/log/history_records.h"
#include "loop/log/record_text.h"
#include "runtime/text.h"
#include "runtime/throw_error.h"

namespace giro {
namespace {

constexpr std::array<std::string_view, 6> kElapsedFields{"steps",      "samples", "date",
                                                         "date_start", "time",    "step_samples"};
constexpr std::size_t kLogged = 8;  // name orders cached to avoid a search

}  // namespace

bool History::Records::Layout::has(std::size_t column) const {
  return std::binary_search(columns.begin(), columns.end(), static_cast<std::uint32_t>(column));
}

History::History(const History& other)
    : records_(other.records_ ? std::make_shared<Records>(*other.records_) : nullptr) {}
History& History::operator=(const History& other) { return *this = History(other); }

const History::Records& History::records() const {
  static const Records none;
  return records_ ? *records_ : none;
}

std::size_t History::size() const noexcept { return records_ ? records_->size() : 0; }

void History::commit(const Elapsed& elapsed, const Logs& logs) {
  if (!records_) records_ = std::make_shared<Records>();
  const bool are_numbers =
      std::ranges::all_of(logs.values(), [](const LogValue& value) { return value.number() != nullptr; });
  are_numbers ? records_->commit(elapsed, logs) : records_->commit(elapsed, logs.numbers());
}

void History::Records::commit(const Elapsed& elapsed, const Logs& numbers) {
  const std::span<const LogValue> values = numbers.values();
  const auto record = static_cast<std::uint32_t>(size());
  const Logged& known = logged_as(numbers.schema());
  for (std::size_t i = 0; i < values.size(); ++i) {
    Column& column = columns[known.columns[i]];
    // A restored NaN has lost its sign and payload, so they are dropped here too.
    column.values.push_back(detail::without_nan_sign(*values[i].number()));
    column.last_record = record;
  }
  if (runs.empty() || runs.back().layout != known.layout) runs.push_back({record, known.layout});
  if (common.empty() || common.back().date_start != elapsed.date_start ||
      common.back().step_samples != elapsed.step_samples) {
    common.push_back({record, elapsed.date_start, elapsed.step_samples});
  }
  steps.push_back(elapsed.steps);
  samples.push_back(elapsed.samples);
  dates.push_back(elapsed.date);
}

const History::Records::Logged& History::Records::logged_as(const LogSchema& schema) {
  for (const Logged& known : logged) {
    if (known.schema == schema) return known;
  }
  for (std::size_t i = 0; i < schema.size(); ++i) {
    if (schema[i].collection != "elapsed") continue;
    throw_invalid("the log entry '{}' is in a collection that the history fills itself", schema[i].path());
  }
  Logged added{schema, {}, 0};
  for (std::size_t i = 0; i < schema.size(); ++i) {
    added.columns.push_back(column_of(schema[i], schema.role(i).among(added.columns)));
  }
  added.layout = layout_of(added.columns);
  if (logged.size() < kLogged) return logged.emplace_back(std::move(added));
  oldest_logged = (oldest_logged + 1) % kLogged;
  return logged[oldest_logged] = std::move(added);
}

std::uint32_t History::Records::column_of(const LogSchema::Key& key, LogSchema::Role role) {
  if (const auto column = names.find(key.collection, key.name)) return static_cast<std::uint32_t>(*column);
  columns.emplace_back();
  names.add(key.collection, key.name, role);
  return static_cast<std::uint32_t>(columns.size() - 1);
}

std::uint32_t History::Records::layout_of(std::vector<std::uint32_t> sorted) {
  std::sort(sorted.begin(), sorted.end());
  const auto columns_of = [&](std::uint32_t layout) -> const auto& { return layouts[layout].columns; };
  const auto place = std::ranges::lower_bound(layouts_in_order, sorted, {}, columns_of);
  if (place != layouts_in_order.end() && columns_of(*place) == sorted) return *place;
  LogSchema schema;
  std::vector<std::size_t> positions(names.size(), LogSchema::kNone);
  for (const std::uint32_t column : sorted) {
    positions[column] = schema.size();
    schema.add(names[column].collection, names[column].name, names.role(column).among(positions));
  }
  const auto layout = static_cast<std::uint32_t>(layouts.size());
  layouts_in_order.insert(place, layout);
  layouts.push_back({std::move(sorted), std::move(schema)});
  return layout;
}

std::size_t History::Records::run_end(std::size_t run) const {
  return run + 1 < runs.size() ? runs[run + 1].first_record : size();
}

History::Records::Source History::Records::find(std::string_view key) const {
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
    if (const auto column = names.find(key.substr(0, dot), key.substr(dot + 1))) return {false, *column};
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i].name != key) continue;
    sources.push_back({false, i});
    paths.push_back(names[i].path());
  }
  if (sources.size() > 1) throw_invalid("'{}' is in several collections: '{}'", key, fmt::join(paths, "', '"));
  if (sources.empty()) {
    if (size() == 0) throw_error(ErrorCode::not_found, "the history has no '{}': it has no records", key);
    const bool is_path = key.find('.') != key.npos;
    std::vector<std::string> known;
    for (const auto& field : kElapsedFields) known.push_back(is_path ? field_path(field) : std::string(field));
    for (std::size_t i = 0; i < names.size(); ++i) known.push_back(is_path ? names[i].path() : names[i].name);
    throw_error(ErrorCode::not_found, "the history has no '{}'{}", key, suggestion(key, known));
  }
  return sources.front();
}

void History::collect_into(const std::string* first_key, std::vector<double>* first_values,
                           std::size_t keys_count) const {
  const std::span keys(first_key, keys_count);
  const std::span values(first_values, keys_count);
  const Records& all = records();
  std::vector<Records::Source> sources;
  for (const std::string& key : keys) sources.push_back(all.find(key));
  std::ranges::move(all.collect(sources), values.begin());
}

std::vector<std::vector<double>> History::Records::collect(const std::vector<Source>& sources) const {
  std::vector<bool> has_all;  // by layout
  for (const Layout& layout : layouts) {
    has_all.push_back(std::all_of(sources.begin(), sources.end(),
                                  [&](const Source& source) { return source.is_elapsed || layout.has(source.index); }));
  }
  std::size_t count = 0;
  for (std::size_t run = 0; run < runs.size(); ++run) {
    if (has_all[runs[run].layout]) count += run_end(run) - runs[run].first_record;
  }

  std::vector<std::vector<double>> values(sources.size());
  for (std::size_t k = 0; k < sources.size(); ++k) {
    values[k].reserve(count);
    std::vector<bool> has;  // by layout
    for (const Layout& layout : layouts) has.push_back(!sources[k].is_elapsed && layout.has(sources[k].index));
    std::size_t next = 0;  // the next value in the column
    for (std::size_t run = 0; run < runs.size(); ++run) {
      const std::size_t begin = runs[run].first_record, end = run_end(run), layout = runs[run].layout;
      if (has_all[layout]) {
        if (sources[k].is_elapsed) {
          append_elapsed(sources[k].index, begin, end, values[k]);
        } else {
          const auto first = columns[sources[k].index].values.begin() + static_cast<std::ptrdiff_t>(next);
          values[k].insert(values[k].end(), first, first + static_cast<std::ptrdiff_t>(end - begin));
        }
      }
      if (has[layout]) next += end - begin;
    }
  }
  return values;
}

void History::Records::append_elapsed(std::size_t field, std::size_t begin, std::size_t end,
                                      std::vector<double>& values) const {
  const std::string_view name = kElapsedFields[field];
  std::size_t part = common_of(begin);
  for (std::size_t i = begin; i < end; ++i) {
    if (part + 1 < common.size() && common[part + 1].first_record == i) ++part;
    const Common& shared = common[part];
    values.push_back(name == "steps"          ? static_cast<double>(steps[i])
                     : name == "samples"      ? static_cast<double>(samples[i])
                     : name == "date"         ? dates[i]
                     : name == "date_start"   ? shared.date_start
                     : name == "step_samples" ? static_cast<double>(shared.step_samples)
                                              : dates[i] - shared.date_start);
  }
}

std::vector<double> History::column(std::string_view key) const { return std::move(collect(std::string(key)).front()); }

Logs History::latest(std::size_t first_record) const {
  const Records& all = records();
  Logs latest;
  std::vector<std::size_t> positions(all.columns.size(), LogSchema::kNone);
  for (std::size_t i = 0; i < all.columns.size(); ++i) {
    const Records::Column& column = all.columns[i];
    if (column.values.empty() || column.last_record < first_record) continue;
    positions[i] = latest.add(all.names[i].collection, all.names[i].name, all.names.role(i).among(positions),
                              column.values.back());
  }
  return latest;
}

History::Iterator History::begin() const& { return Iterator(records(), 0); }
History::Iterator History::end() const& { return Iterator(records(), size()); }

History::Record History::operator[](std::size_t record) const {
  if (record >= size()) throw_invalid("record {} is out of range, the history has {} records", record, size());
  return *Iterator(records(), record);
}

History::Record History::back() const {
  if (size() == 0) throw_invalid("the history has no records, so there is no last one");
  const Records& all = records();
  const Records::Layout& layout = all.layouts[all.runs.back().layout];
  std::vector<LogValue> values;
  for (const std::uint32_t column : layout.columns) values.emplace_back(all.columns[column].values.back());
  return {all.elapsed_of(size() - 1, all.common.back()), Logs(layout.schema, std::move(values))};
}

Elapsed History::Records::elapsed_of(std::size_t record, const Common& shared) const {
  return {.steps = steps[record],
          .samples = samples[record],
          .date = dates[record],
          .date_start = shared.date_start,
          .step_samples = shared.step_samples};
}

std::size_t History::Records::common_of(std::size_t record) const {
  const auto later = std::upper_bound(common.begin(), common.end(), record,
                                      [](std::size_t at, const Common& c) { return at < c.first_record; });
  return static_cast<std::size_t>(later - common.begin()) - 1;
}

History::Iterator::Iterator(const Records& records, std::size_t record)
    : records_(&records), record_(record), next_(record < records.size() ? records.columns.size() : 0) {
  if (record == 0 || next_.empty()) return;
  const auto skip = [&](std::size_t count) {
    for (const std::uint32_t column : records.layouts[layout()].columns) next_[column] += count;
  };
  for (; records.run_end(run_) <= record; ++run_) skip(records.run_end(run_) - records.runs[run_].first_record);
  skip(record - records.runs[run_].first_record);
  common_ = records.common_of(record);
}

History::Record History::Iterator::operator*() const {
  const Records::Layout& names = records_->layouts[layout()];
  std::vector<LogValue> values;
  values.reserve(names.columns.size());
  for (const std::uint32_t column : names.columns) values.emplace_back(value(column));
  return {elapsed(), Logs(names.schema, std::move(values))};
}

History::Iterator& History::Iterator::operator++() {
  for (const std::uint32_t column : records_->layouts[layout()].columns) ++next_[column];
  ++record_;
  const auto begins = [&](const auto& parts, std::size_t part) {
    return part < parts.size() && parts[part].first_record == record_;
  };
  if (begins(records_->runs, run_ + 1)) ++run_;
  if (begins(records_->common, common_ + 1)) ++common_;
  return *this;
}

}  // namespace giro
