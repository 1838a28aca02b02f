#include <giro/loop/log/history.h>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <iterator>
#include <map>
#include <optional>

#include <giro/runtime/error.h>
#include <giro/runtime/file_system.h>

#include "loop/log/internal/record_text.h"
#include "runtime/internal/text.h"

namespace giro {
namespace {

using detail::append_json, detail::csv_cell, detail::json_string;

constexpr std::array<std::string_view, 5> kElapsedFields{"steps", "samples", "date", "date_start", "time"};

Logs without_arrays(const Logs& logs) {
  Logs scalars;
  for (const Logs::Entry& entry : logs.entries()) {
    if (entry.value.is_scalar() || entry.collection != "outputs") {
      scalars.add_entry(entry.collection, entry.name, entry.value);
    }
  }
  return scalars;
}

// Text on its way to a file, line by line.
class Lines {
 public:
  explicit Lines(FileSystem::Writer& writer) : writer_(writer) {}

  std::string text;  // of the line so far, and of those before it that were not written yet

  void end_line() {
    constexpr std::size_t kBytes = std::size_t{1} << 16;
    text += '\n';
    if (text.size() >= kBytes) flush();
  }
  void flush() {
    writer_.write(text.data(), text.size());
    text.clear();
  }

 private:
  FileSystem::Writer& writer_;
};

template <class... Args>
void append(std::string& text, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(text), format, std::forward<Args>(args)...);
}

}  // namespace

bool History::Layout::has(std::size_t column) const {
  return std::find(columns.begin(), columns.end(), column) != columns.end();
}

void History::commit(const Elapsed& elapsed, const Logs& logs) {
  row_.clear();
  for (std::size_t i = 0; i < logs.values().size(); ++i) {
    if (!logs.values()[i].is_scalar() && logs.schema()[i].collection == "outputs") {
      return commit(elapsed, without_arrays(logs));
    }
    row_.push_back(logs.value(i));
  }

  const auto record = static_cast<std::uint32_t>(size());
  const std::uint32_t layout = layout_of(logs.schema());
  for (std::size_t i = 0; i < row_.size(); ++i) {
    Column& column = columns_[layouts_[layout].columns[i]];
    column.values.push_back(row_[i]);
    column.last_record = record;
  }
  if (runs_.empty() || runs_.back().layout != layout) runs_.push_back({record, layout});
  if (date_starts_.empty() || date_starts_.back().date_start != elapsed.date_start) {
    date_starts_.push_back({record, elapsed.date_start});
  }
  steps_.push_back(elapsed.steps);
  samples_.push_back(elapsed.samples);
  dates_.push_back(elapsed.date);
}

std::uint32_t History::layout_of(const LogSchema& schema) {
  // Mostly that of the record before.
  if (!runs_.empty() && layouts_[runs_.back().layout].schema == &schema) return runs_.back().layout;
  const auto same = [&](const Layout& layout) { return layout.schema == &schema; };
  const auto found = std::find_if(layouts_.begin(), layouts_.end(), same);
  if (found != layouts_.end()) return static_cast<std::uint32_t>(found - layouts_.begin());

  for (std::size_t i = 0; i < schema.size(); ++i) {
    if (schema[i].collection != "elapsed") continue;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the log entry '{}' is in a collection that the history fills itself", schema[i].path()));
  }
  Layout layout{&schema, {}};
  for (std::size_t i = 0; i < schema.size(); ++i) layout.columns.push_back(column_of(schema[i]));
  layouts_.push_back(std::move(layout));
  return static_cast<std::uint32_t>(layouts_.size() - 1);
}

std::uint32_t History::column_of(const LogSchema::Key& key) {
  const auto found = std::find_if(columns_.begin(), columns_.end(), [&](const Column& column) {
    return column.key.name == key.name && column.key.collection == key.collection;
  });
  if (found != columns_.end()) return static_cast<std::uint32_t>(found - columns_.begin());
  columns_.push_back({key, {}, 0});
  return static_cast<std::uint32_t>(columns_.size() - 1);
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
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    if (columns_[i].key.has_path(key)) return {false, i};
    if (columns_[i].key.name != key) continue;
    sources.push_back({false, i});
    paths.push_back(columns_[i].key.path());
  }
  if (sources.size() > 1) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("'{}' is in several collections: '{}'", key, fmt::join(paths, "', '")));
  }
  if (sources.empty()) {
    const bool is_path = key.find('.') != key.npos;
    std::vector<std::string> known;
    for (const auto& field : kElapsedFields) known.push_back(is_path ? field_path(field) : std::string(field));
    for (const Column& column : columns_) known.push_back(is_path ? column.key.path() : column.key.name);
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
  const auto later = std::upper_bound(date_starts_.begin(), date_starts_.end(), begin,
                                      [](std::size_t record, const DateStart& s) { return record < s.first_record; });
  auto start = std::prev(later);
  for (std::size_t i = begin; i < end; ++i) {
    if (std::next(start) != date_starts_.end() && std::next(start)->first_record == i) ++start;
    values.push_back(name == "steps"        ? static_cast<double>(steps_[i])
                     : name == "samples"    ? static_cast<double>(samples_[i])
                     : name == "date"       ? dates_[i]
                     : name == "date_start" ? start->date_start
                                            : dates_[i] - start->date_start);
  }
}

Logs History::latest(std::size_t first_record) const {
  const LogSchema* schema = &LogSchema::empty();
  std::vector<LogValue> values;
  for (const Column& column : columns_) {
    if (column.values.empty() || column.last_record < first_record) continue;
    schema = &schema->with(column.key.collection, column.key.name);
    values.emplace_back(column.values.back());
  }
  return Logs(*schema, std::move(values));
}

void History::write_csv(const std::string& path) const {
  std::map<std::string, int> uses{{"steps", 1}, {"samples", 1}, {"time", 1}};
  for (const Column& column : columns_) ++uses[column.key.name];
  replace_file(*posix_file_system(), path, [&](FileSystem::Writer& writer) {
    Lines lines(writer);
    std::string& text = lines.text;
    text += "steps,samples,time";
    for (const Column& column : columns_) {
      text += ',';
      text += csv_cell(uses[column.key.name] > 1 ? column.key.path() : column.key.name);
    }
    lines.end_line();
    for (Iterator it = begin(); it.record_ != size(); ++it) {
      const Elapsed elapsed = it.elapsed();
      append(text, "{},{},{}", elapsed.steps, elapsed.samples, elapsed.time());
      for (std::size_t column = 0; column < columns_.size(); ++column) {
        text += ',';
        if (it.layout().has(column)) append(text, "{}", it.value(column));
      }
      lines.end_line();
    }
    lines.flush();
  });
}

void History::write_jsonl(const std::string& path) const {
  struct Field {
    std::string before;  // the text before the number
    std::size_t column;
  };
  // The fields of a layout's records, by collection.
  const auto fields_of = [&](const Layout& layout) {
    std::vector<Field> fields;
    std::vector<bool> done(columns_.size());
    for (std::size_t first : layout.columns) {
      if (done[first]) continue;
      const std::string& collection = columns_[first].key.collection;
      std::string before = fmt::format("}},{}:{{", json_string(collection));
      for (std::size_t column : layout.columns) {
        if (columns_[column].key.collection != collection) continue;
        fields.push_back({before + json_string(columns_[column].key.name) + ":", column});
        done[column] = true;
        before.assign(1, ',');
      }
    }
    return fields;
  };
  std::vector<std::vector<Field>> fields;
  for (const Layout& layout : layouts_) fields.push_back(fields_of(layout));

  replace_file(*posix_file_system(), path, [&](FileSystem::Writer& writer) {
    Lines lines(writer);
    std::string& text = lines.text;
    for (Iterator it = begin(); it.record_ != size(); ++it) {
      const Elapsed elapsed = it.elapsed();
      append(text, R"({{"elapsed":{{"steps":{},"samples":{})", elapsed.steps, elapsed.samples);
      text += ",\"date\":";
      append_json(text, elapsed.date);
      text += ",\"date_start\":";
      append_json(text, elapsed.date_start);
      text += ",\"time\":";
      append_json(text, elapsed.time());
      for (const Field& field : fields[runs_[it.run_].layout]) {
        text += field.before;
        append_json(text, it.value(field.column));
      }
      text += "}}";
      lines.end_line();
    }
    lines.flush();
  });
}

void History::write_npy(std::string_view key, const std::string& path) const {
  const std::vector<double> values = collect(key).front();
  std::string header = fmt::format("{{'descr': '{}f8', 'fortran_order': False, 'shape': ({},), }}",
                                   std::endian::native == std::endian::little ? '<' : '>', values.size());
  constexpr std::size_t kPrefix = 10, kAlignment = 64;
  header.append(kAlignment - 1 - (kPrefix + header.size()) % kAlignment, ' ');
  header += '\n';
  const auto length = static_cast<unsigned>(header.size());
  const std::string prefix{'\x93',
                           'N',
                           'U',
                           'M',
                           'P',
                           'Y',
                           '\x01',
                           '\x00',
                           static_cast<char>(length & 0xFF),
                           static_cast<char>(length >> 8)};
  header.insert(0, prefix);
  replace_file(*posix_file_system(), path, [&](FileSystem::Writer& writer) {
    writer.write(header.data(), header.size());
    writer.write(values.data(), values.size() * sizeof(double));
  });
}

History::Iterator History::begin() const { return Iterator(*this, 0); }

History::Iterator History::end() const { return Iterator(*this, size()); }

History::Iterator::Iterator(const History& history, std::size_t record)
    : history_(&history), record_(record), next_(record == 0 ? history.columns_.size() : 0) {}

Elapsed History::Iterator::elapsed() const {
  const History& h = *history_;
  return {h.steps_[record_], h.samples_[record_], h.dates_[record_], h.date_starts_[date_start_].date_start};
}

History::Record History::Iterator::operator*() const {
  std::vector<LogValue> values;
  values.reserve(layout().columns.size());
  for (const std::uint32_t column : layout().columns) values.emplace_back(value(column));
  return {elapsed(), Logs(*layout().schema, std::move(values))};
}

History::Iterator& History::Iterator::operator++() {
  const History& h = *history_;
  for (const std::uint32_t column : layout().columns) ++next_[column];
  ++record_;
  const auto begins = [&](const auto& parts, std::size_t part) {
    return part < parts.size() && parts[part].first_record == record_;
  };
  if (begins(h.runs_, run_ + 1)) ++run_;
  if (begins(h.date_starts_, date_start_ + 1)) ++date_start_;
  return *this;
}

}  // namespace giro
