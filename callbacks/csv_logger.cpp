#include <giro/callbacks/csv_logger.h>

#include <fmt/format.h>

#include <charconv>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "callbacks/line_writer.h"
#include "loop/log/record_text.h"

namespace giro {
namespace {

using detail::kCsvElapsed;

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

class CsvWriter final : public detail::LineWriter {
 public:
  CsvWriter(const std::string& path, const LoggerOptions& options) : LineWriter("csv_logger", path, options) {}

 private:
  // The header identifies the column. The tag is empty if it was read from a file and not logged since.
  struct Column {
    std::string header;
    Tag tag = "";
  };

  // A line break within quotes is part of a name.
  std::size_t line_end(std::string_view text, std::size_t begin) const override {
    bool quoted = false;
    for (std::size_t i = begin; i < text.size(); ++i) {
      if (text[i] == '"') quoted = !quoted;
      if (text[i] == '\n' && !quoted) return i;
    }
    return text.npos;
  }

  void reset() override {
    columns_.clear();
    by_header_.clear();
    columns_in_file_ = 0;
    has_header_ = false;
  }

  std::int64_t read(const std::string& line) override {
    if (!has_header_) {
      const std::vector<std::string> names = from_cells(line);
      const bool begins = line.starts_with(kCsvElapsed) && names.size() >= 3 && names[2] == "time";
      if (!begins) reject(line, fmt::format("a header \"{},...\"", kCsvElapsed));
      for (std::size_t i = 3; i < names.size(); ++i) add_column(names[i]);
      columns_in_file_ = columns_.size();
      has_header_ = true;
      return -1;
    }
    std::int64_t step = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), step);
    if (error != std::errc() || *end != ',') reject(line, "a record that begins with its steps");
    return step;
  }

  bool append(std::string& text, const MetricRecord& record) override {
    const auto& scalars = std::get<MetricRecord::Scalars>(record.values);
    if (scalars.empty()) return false;
    cells_.assign(columns_.size(), {});
    for (std::size_t i = 0; i < scalars.size(); ++i) {
      const std::size_t column = column_of(scalars[i].first, i);
      cells_.resize(columns_.size());
      cells_[column].clear();
      detail::append_csv(cells_[column], scalars[i].second);
    }
    if (!has_header_ || columns_.size() > columns_in_file_) write_header(text);
    columns_in_file_ = columns_.size();
    detail::append_csv(text, record.elapsed);
    for (const std::string& cell : cells_) text.append(1, ',').append(cell);
    return true;
  }

  // Most records have the same entries in the same order, so the entry's position finds its column.
  std::size_t column_of(const Tag& tag, std::size_t hint) {
    if (hint < columns_.size() && columns_[hint].tag == tag) return hint;
    const std::string header = detail::csv_column(tag.collection(), tag.name());
    const auto known = by_header_.find(header);
    const std::size_t column = known != by_header_.end() ? known->second : add_column(header);
    columns_[column].tag = tag;
    return column;
  }
  std::size_t add_column(const std::string& header) {
    columns_.push_back({header});
    return by_header_.emplace(header, columns_.size() - 1).first->second;
  }

  // Writes the header of all columns, those that the file lacks too.
  void write_header(std::string& text) {
    std::string header(kCsvElapsed);
    for (const Column& column : columns_) header.append(1, ',').append(detail::csv_cell(column.header));
    if (!std::exchange(has_header_, true)) {
      text.append(header).append(1, '\n');
      return;
    }
    replace([&](const std::vector<std::string>& lines) {
      std::string content = header + '\n';
      const std::size_t more = columns_.size() - columns_in_file_;
      for (std::size_t i = 1; i < lines.size(); ++i) content.append(lines[i]).append(more, ',').append(1, '\n');
      return content;
    });
  }

  std::vector<Column> columns_;
  std::unordered_map<std::string, std::size_t> by_header_;
  std::vector<std::string> cells_;
  std::size_t columns_in_file_ = 0;
  bool has_header_ = false;
};

}  // namespace

CsvLogger::CsvLogger(const std::string& path, const LoggerOptions& options)
    : MetricLogger(std::make_shared<CsvWriter>(path, options)) {}

}  // namespace giro
