// Records of logs as text: in files, and in a checkpoint.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <giro/loop/log/history.h>
#include <giro/runtime/files/archive.h>
#include <giro/runtime/files/file_system.h>

#include "loop/log/history_records.h"
#include "loop/log/record_text.h"
#include "runtime/files/npy.h"
#include "runtime/text.h"
#include "runtime/throw_error.h"

namespace giro::detail {

void append_csv(std::string& text, const Elapsed& elapsed) {
  fmt::format_to(std::back_inserter(text), "{},{},{}", elapsed.steps, elapsed.samples, elapsed.time());
}

void append_csv(std::string& text, double number) {
  fmt::format_to(std::back_inserter(text), "{}", without_nan_sign(number));
}

std::string csv_column(std::string_view collection, std::string_view name) {
  const bool is_elapsed = name == "steps" || name == "samples" || name == "time";
  if (collection == "metrics" && !is_elapsed && name.find('.') == name.npos) return std::string(name);
  return fmt::format("{}.{}", collection, name);
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == text.npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted.append(c == '"' ? 2 : 1, c);
  return quoted + '"';
}

void append_json(std::string& text, double number) {
  if (!std::isfinite(number)) {
    text += "null";
  } else if (number == 0 && std::signbit(number)) {
    text += "-0.0";  // -0 would be read as an integer, which has no sign
  } else {
    fmt::format_to(std::back_inserter(text), "{}", number);
  }
}

void append_json(std::string& text, const Elapsed& elapsed) {
  text += kJsonlBegin;
  fmt::format_to(std::back_inserter(text), R"({},"samples":{})", elapsed.steps, elapsed.samples);
  for (const auto& [name, value] : {std::pair("date", elapsed.date), std::pair("date_start", elapsed.date_start),
                                    std::pair("time", elapsed.time())}) {
    fmt::format_to(std::back_inserter(text), R"(,"{}":)", name);
    append_json(text, value);
  }
  text += '}';
}

double without_nan_sign(double number) {
  return std::isnan(number) ? std::numeric_limits<double>::quiet_NaN() : number;
}

}  // namespace giro::detail

namespace giro {
namespace {

[[noreturn]] void reject(std::size_t line, std::string_view text, const std::string& expected) {
  throw_error(ErrorCode::corrupt_data, "record {} of the history is {:?}, expected {}", line, text.substr(0, 60),
              expected);
}

// Unlike in the exports, a number that is not finite must be read back.
void append_number(std::string& text, double number) {
  if (std::isfinite(number)) {
    detail::append_json(text, number);
  } else {
    text += std::isnan(number) ? R"("NaN")" : number > 0 ? R"("Infinity")" : R"("-Infinity")";
  }
}

// Reads a number as append_number writes it; nothing for anything else.
std::optional<double> number_of(const nlohmann::json& json) {
  if (json.is_number()) return json.get<double>();
  if (json == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (json == "Infinity") return std::numeric_limits<double>::infinity();
  return json == "-Infinity" ? std::optional(-std::numeric_limits<double>::infinity()) : std::nullopt;
}

// What a column's entry says of a value; nothing for the first one.
template <class T>
using Names = std::array<std::pair<T, const char*>, 3>;
constexpr Names<LogSchema::Rule> kRules{
    {{LogSchema::Rule::mean, ""}, {LogSchema::Rule::last, "last"}, {LogSchema::Rule::sum, "sum"}}};
constexpr Names<nn::Direction> kDirections{
    {{nn::Direction::unknown, ""}, {nn::Direction::lower, "lower"}, {nn::Direction::higher, "higher"}}};

template <class T>
std::string text_of(const Names<T>& names, T value) {
  return std::ranges::find(names, value, &std::pair<T, const char*>::first)->second;
}

template <class T>
T value_of(const Names<T>& names, const std::string& text, const char* what) {
  for (const auto& [value, name] : names) {
    if (text == name) return value;
  }
  throw_error(ErrorCode::corrupt_data, "a column of the history has the {} {:?}, expected '{}' or '{}'", what,
              text.substr(0, 80), names[1].second, names[2].second);
}

// The fields before the values in a line: the layout, then the fields of Elapsed that a history keeps.
constexpr std::size_t kFields = 6;

using detail::append_csv, detail::append_json, detail::csv_cell, detail::csv_column;

// Writes the text `begin`, then a line for each record: what append(text, record) adds.
template <class F>
void write_lines(const History& history, const std::string& path, FileSystem& files, const std::string& begin,
                 F&& append) {
  constexpr std::size_t kBytes = std::size_t{1} << 16;
  replace_file(files, path, [&](FileSystem::Writer& writer) {
    std::string text = begin;
    const auto write = [&] {
      writer.write(text.data(), text.size());
      text.clear();
    };
    const auto end = history.end();
    for (auto it = history.begin(); it != end; ++it) {
      append(text, it);
      text += '\n';
      if (text.size() >= kBytes) write();
    }
    write();
  });
}

}  // namespace

void History::write_csv(const std::string& path, FileSystem& files) const {
  const Records& all = records();
  std::string header(detail::kCsvElapsed);
  for (std::size_t column = 0; column < all.names.size(); ++column) {
    header.append(1, ',').append(csv_cell(csv_column(all.names[column].collection, all.names[column].name)));
  }
  write_lines(*this, path, files, header + '\n', [&](std::string& text, const Iterator& it) {
    append_csv(text, it.elapsed());
    for (std::size_t column = 0; column < all.columns.size(); ++column) {
      text += ',';
      if (all.layouts[it.layout()].has(column)) append_csv(text, it.value(column));
    }
  });
}

void History::write_jsonl(const std::string& path, FileSystem& files) const {
  const Records& all = records();
  struct Field {
    std::string before;  // the text before the number
    std::size_t column;
  };
  // The fields of a layout's records, by collection.
  const auto fields_of = [&](const Records::Layout& layout) {
    std::vector<Field> fields;
    std::vector<bool> done(all.columns.size());
    for (std::size_t first : layout.columns) {
      if (done[first]) continue;
      const std::string& collection = all.names[first].collection;
      std::string before = fmt::format("{}{}:{{", fields.empty() ? "," : "},", json_string(collection));
      for (std::size_t column : layout.columns) {
        if (all.names[column].collection != collection) continue;
        fields.push_back({before + json_string(all.names[column].name) + ":", column});
        done[column] = true;
        before.assign(1, ',');
      }
    }
    return fields;
  };
  std::vector<std::vector<Field>> fields;
  for (const Records::Layout& layout : all.layouts) fields.push_back(fields_of(layout));

  write_lines(*this, path, files, "", [&](std::string& text, const Iterator& it) {
    append_json(text, it.elapsed());
    const std::vector<Field>& of_record = fields[it.layout()];
    for (const Field& field : of_record) {
      text += field.before;
      append_json(text, it.value(field.column));
    }
    text += of_record.empty() ? "}" : "}}";
  });
}

void History::write_npy(std::string_view key, const std::string& path, FileSystem& files) const {
  const std::vector<double> values = collect(key).front();
  const std::string header = detail::npy_header(DType::f64, {static_cast<std::int64_t>(values.size())});
  replace_file(files, path, [&](FileSystem::Writer& writer) {
    writer.write(header.data(), header.size());
    writer.write(values.data(), values.size() * sizeof(double));
  });
}

// A line is a JSON list: the record's layout, steps, samples, date, date_start, step_samples, then the layout's values.
std::string History::Records::lines_from(std::size_t first) const {
  std::string text;
  for (Iterator it(*this, first); it.record_ < size(); ++it) {
    const Elapsed elapsed = it.elapsed();
    const std::size_t layout = runs[it.run_].layout;
    text += fmt::format("[{},{},{}", layout, elapsed.steps, elapsed.samples);
    for (const double date : {elapsed.date, elapsed.date_start}) append_number(text += ',', date);
    text += fmt::format(",{}", elapsed.step_samples);
    for (const std::uint32_t column : layouts[layout].columns) append_number(text += ',', it.value(column));
    text += "]\n";
  }
  return text;
}

void History::Records::read_lines(std::string_view text, const std::vector<Logs>& known) {
  std::vector<Logs> records = known;
  for (std::size_t line = 0; !text.empty(); ++line) {
    const std::string_view record = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(record.size() + 1, text.size()));
    const auto json = nlohmann::json::parse(record, nullptr, /*allow_exceptions=*/false);
    if (!json.is_array() || json.size() < kFields) reject(line, record, fmt::format("a list of at least {}", kFields));
    for (const std::size_t field : {0, 1, 2, 5}) {
      if (!json[field].is_number_integer()) reject(line, record, fmt::format("an integer at index {}", field));
    }
    if (!json[0].is_number_unsigned() || json[0].get<std::uint64_t>() >= records.size()) {
      reject(line, record, fmt::format("one of {} layouts", records.size()));
    }
    Logs& logs = records[json[0].get<std::size_t>()];
    if (json.size() != kFields + logs.values().size()) {
      reject(line, record, fmt::format("{} values", logs.values().size()));
    }
    const auto number_at = [&](std::size_t i) {
      if (const std::optional<double> number = number_of(json[i])) return *number;
      reject(line, record, fmt::format("a number at index {}", i));
    };
    const Elapsed elapsed{.steps = json[1].get<std::int64_t>(),
                          .samples = json[2].get<std::int64_t>(),
                          .date = number_at(3),
                          .date_start = number_at(4),
                          .step_samples = json[5].get<std::int64_t>()};
    for (std::size_t i = 0; i < logs.values().size(); ++i) logs.values()[i] = number_at(kFields + i);
    commit(elapsed, logs);
  }
}

void History::persist(Archive& archive) {
  struct Name {
    std::string collection, name, rule = {}, better = {};  // empty: a mean, and an unknown direction
    void persist(Archive& inner) {
      inner("collection", collection)("name", name);
      if (inner.is_reading() ? inner.contains("rule") : !rule.empty()) inner("rule", rule);
      if (inner.is_reading() ? inner.contains("better") : !better.empty()) inner("better", better);
    }
  };
  const Records& all = records();
  std::vector<Name> columns;
  std::vector<std::vector<std::uint32_t>> layouts;
  for (std::size_t i = 0; i < all.names.size(); ++i) {
    const LogSchema::Role& role = all.names.role(i);
    columns.push_back(
        {all.names[i].collection, all.names[i].name, text_of(kRules, role.rule), text_of(kDirections, role.direction)});
  }
  for (const Records::Layout& layout : all.layouts) layouts.push_back(layout.columns);
  archive("columns", columns)("layouts", layouts);
  archive.lines(
      "records", size(), [&](std::size_t first) { return all.lines_from(first); },
      [&](std::string_view text) {
        auto read = std::make_shared<Records>();
        // The names that Logs::add_metric makes tell which columns hold the data of others.
        const auto role_of = [&](const Name& column) -> LogSchema::Role {
          const LogSchema::Role own{.rule = value_of(kRules, column.rule, "rule"),
                                    .direction = value_of(kDirections, column.better, "direction")};
          const std::size_t slash = column.name.find('/');
          if (slash == column.name.npos) return own;
          const auto metric = read->names.find(column.name.substr(0, slash), column.name.substr(slash + 1));
          if (!metric) return own;
          if (column.collection == detail::kCounts) return {LogSchema::Part::count, *metric};
          if (column.collection == detail::kMeans) return {LogSchema::Part::mean, *metric};
          if (column.collection == detail::kLogarithms) return {LogSchema::Part::logarithm, *metric};
          return own;
        };
        for (const Name& column : columns) {
          if (column.collection == "elapsed") {
            throw_error(ErrorCode::corrupt_data,
                        "a column of the history is {:?} in the collection 'elapsed', which has no columns",
                        column.name.substr(0, 80));
          }
          read->column_of({column.collection, column.name}, role_of(column));
        }
        std::vector<Logs> records;
        for (const auto& layout : layouts) {
          Logs& logs = records.emplace_back();
          for (const std::uint32_t column : layout) {
            if (column >= columns.size()) {
              throw_error(ErrorCode::corrupt_data, "a layout of the history refers to column {} of {}", column,
                          columns.size());
            }
            logs.add_entry(columns[column].collection, columns[column].name, 0.0);
          }
        }
        read->read_lines(text, records);
        records_ = std::move(read);
      });
}

}  // namespace giro
