#include <giro/callbacks/csv_logger.h>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include <giro/runtime/error.h>

#include "callbacks/internal/log_file.h"
#include "loop/log/internal/record_text.h"

namespace giro {
namespace {

constexpr std::string_view kElapsedHeader = "steps,samples,time";

std::vector<std::string> from_cells(std::string_view line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"') {
      cells.back() += line[i++];
    } else if (line[i] == '"') {
      quoted = !quoted;
    } else if (line[i] == ',' && !quoted) {
      cells.emplace_back();
    } else {
      cells.back() += line[i];
    }
  }
  return cells;
}

}  // namespace

class CsvLogger::File {
 public:
  File(const std::string& path, const LoggerOptions& options) : file_(path, options) {}

  // Before the step number `first` is logged, when a loop begins.
  void start(std::int64_t first) {
    if (file_.is_open() && !file_.appends()) return;
    columns_.clear();
    has_header_ = false;
    bool header = true;
    const std::vector<std::string> lines = file_.open([&](const std::string& line) {
      if (std::exchange(header, false)) return true;
      std::int64_t step = 0;
      const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), step);
      if (error != std::errc() || *end != ',') refuse(line, "a record that begins with its steps");
      return step < first;
    });
    if (lines.empty()) return;
    if (!lines[0].starts_with(kElapsedHeader)) refuse(lines[0], fmt::format("a header \"{},...\"", kElapsedHeader));
    has_header_ = true;
    const std::vector<std::string> names = from_cells(lines[0]);
    for (std::size_t i = 3; i < names.size(); ++i) columns_.push_back({names[i], "", ""});
    columns_in_file_ = columns_.size();
  }

  void write(const Elapsed& elapsed, const Logs& logs) {
    if (!file_.is_open()) start(elapsed.steps);
    cells_.assign(columns_.size(), {});
    bool is_empty = true;
    for (std::size_t i = 0; i < logs.entries().size(); ++i) {
      const Logs::Entry entry = logs.entries()[i];
      if (!entry.value.is_scalar() && entry.collection == "outputs") continue;
      const std::size_t column = column_of(entry, i);
      cells_.resize(columns_.size());
      cells_[column] = fmt::format("{}", entry.value.value());
      is_empty = false;
    }
    if (is_empty) return;
    if (!has_header_ || columns_.size() > columns_in_file_) write_header(columns_.size() - columns_in_file_);
    columns_in_file_ = columns_.size();
    fmt::format_to(std::back_inserter(file_.text), "{},{},{}", elapsed.steps, elapsed.samples, elapsed.time());
    for (const std::string& cell : cells_) file_.text.append(1, ',').append(cell);
    file_.end_line(elapsed.date);
  }

  void sync() { file_.sync(); }

 private:
  struct Column {
    std::string header;
    std::string collection, name;  // empty: read from a file, and not seen since

    std::string path() const { return collection + "." + name; }
  };

  // Records mostly have the same entries in the same order, so the entry's position tells its column.
  std::size_t column_of(const Logs::Entry& entry, std::size_t hint) {
    const auto same = [&](const Column& c) { return c.name == entry.name && c.collection == entry.collection; };
    if (hint < columns_.size() && same(columns_[hint])) return hint;
    auto found = std::find_if(columns_.begin(), columns_.end(), same);
    if (found == columns_.end()) {
      const std::string path = entry.collection + "." + entry.name;
      found = std::find_if(columns_.begin(), columns_.end(), [&](const Column& c) {
        return c.collection.empty() && (c.header == entry.name || c.header == path);
      });
      if (found == columns_.end()) {
        if (path.find('\n') != path.npos) {
          throw Error(ErrorCode::invalid_argument,
                      fmt::format("csv_logger: the entry {:?} has a line break in its name", path));
        }
        found = columns_.insert(found, Column{});
      }
      found->collection = entry.collection;
      found->name = entry.name;
    }
    return static_cast<std::size_t>(found - columns_.begin());
  }

  // The header for all columns, the last `more` of which are new.
  void write_header(std::size_t more) {
    std::map<std::string, int> uses{{"steps", 1}, {"samples", 1}, {"time", 1}};
    for (const Column& column : columns_) ++uses[column.collection.empty() ? column.header : column.name];
    std::string header(kElapsedHeader);
    for (Column& column : columns_) {
      if (!column.collection.empty()) column.header = uses[column.name] > 1 ? column.path() : column.name;
      header.append(1, ',').append(detail::csv_cell(column.header));
    }
    if (!std::exchange(has_header_, true)) {
      file_.text.append(header).append(1, '\n');
      return;
    }
    file_.replace([&](const std::vector<std::string>& lines) {
      std::string content = header + '\n';
      for (std::size_t i = 1; i < lines.size(); ++i) content.append(lines[i]).append(more, ',').append(1, '\n');
      return content;
    });
  }

  [[noreturn]] void refuse(const std::string& line, const std::string& expected) const {
    throw Error(ErrorCode::corrupt_data, fmt::format("csv_logger: '{}' has the line {:?}, expected {}", file_.path(),
                                                     line.substr(0, 60), expected));
  }

  detail::LogFile file_;
  std::vector<Column> columns_;
  std::vector<std::string> cells_;
  std::size_t columns_in_file_ = 0;
  bool has_header_ = false;
};

CsvLogger::CsvLogger(const std::string& path, const LoggerOptions& options)
    : file_(std::make_shared<File>(path, options)) {}

void CsvLogger::on_start(const Elapsed& elapsed) { file_->start(elapsed.steps); }
void CsvLogger::operator()(const Elapsed& elapsed, const Logs& logs) { file_->write(elapsed, logs); }
void CsvLogger::on_end() { file_->sync(); }

}  // namespace giro
