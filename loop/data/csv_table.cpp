#include "loop/data/csv_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <locale>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>

#include "runtime/text.h"
#include "runtime/throw_error.h"

namespace giro::data {
namespace {

constexpr ErrorCode kCorrupt = ErrorCode::corrupt_data;

// Reads the fields of a file's content, one after the other (RFC 4180).
class Fields {
 public:
  Fields(const std::string& path, std::string_view content, char delimiter)
      : path_(path), rest_(content), delimiter_(delimiter) {
    if (rest_.starts_with("\xef\xbb\xbf")) rest_.remove_prefix(3);  // a byte order mark, as spreadsheets write it
  }

  bool at_end() const { return rest_.empty(); }
  bool line_ended() const { return line_ended_; }  // whether the latest field was the last of its record
  bool was_quoted() const { return quoted_; }

  // The next field; valid until the one after it is read. Call it at the end only after a delimiter.
  std::string_view next() {
    line_ += lines_passed_;
    lines_passed_ = 0;
    quoted_ = !rest_.empty() && rest_.front() == '"';
    std::string_view field;
    if (quoted_) {
      field = next_quoted();
    } else {
      const auto* const end =
          std::find_if(rest_.begin(), rest_.end(), [this](char c) { return c == delimiter_ || c == '\n' || c == '"'; });
      field = rest_.substr(0, static_cast<std::size_t>(end - rest_.begin()));
      rest_.remove_prefix(field.size());
      if (!rest_.empty() && rest_.front() == '"') fail("a quote within a field that does not begin with one");
      if ((rest_.empty() || rest_.front() == '\n') && field.ends_with('\r')) field.remove_suffix(1);
    }
    line_ended_ = rest_.empty() || rest_.front() == '\n';
    lines_passed_ += rest_.starts_with('\n') ? 1 : 0;
    if (!rest_.empty()) rest_.remove_prefix(1);
    return field;
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw_error(kCorrupt, "{}: line {}: {}", path_, line_, what);
  }

 private:
  std::string_view next_quoted() {
    rest_.remove_prefix(1);
    unquoted_.clear();
    while (true) {
      const std::size_t quote = rest_.find('"');
      if (quote == std::string_view::npos) fail("an unterminated quoted field");
      unquoted_ += rest_.substr(0, quote);
      lines_passed_ += std::count(rest_.begin(), rest_.begin() + static_cast<std::ptrdiff_t>(quote), '\n');
      rest_.remove_prefix(quote + 1);
      if (!rest_.starts_with('"')) break;
      unquoted_ += '"';
      rest_.remove_prefix(1);
    }
    if (rest_.starts_with("\r\n")) rest_.remove_prefix(1);
    if (!rest_.empty() && rest_.front() != delimiter_ && rest_.front() != '\n')
      fail("text after the end of a quoted field");
    return unquoted_;
  }

  const std::string& path_;
  std::string_view rest_;
  char delimiter_;
  std::string unquoted_;
  std::int64_t line_ = 1, lines_passed_ = 0;
  bool line_ended_ = false, quoted_ = false;
};

// The number, or NaN if the field is not a number or not finite in f32. A number too small for f32 becomes 0.
float number(std::string_view text) {
  constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  text = text.substr(0, text.find_last_not_of(" \t") + 1);
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  float value = 0;
  const char* const last = text.data() + text.size();
  auto [end, error] = std::from_chars(text.data(), last, value);
  if (error == std::errc::result_out_of_range) {
    double wide = 0;
    error = std::errc();
    if (std::from_chars(text.data(), last, wide).ec == std::errc::result_out_of_range) {
      // from_chars does not say whether the number is too large or too small. A stream reads the latter as 0.
      std::istringstream digits{std::string(text.data(), end)};
      digits.imbue(std::locale::classic());
      digits >> wide;
    }
    value = std::abs(wide) < 1 ? static_cast<float>(wide) : kNone;
  }
  return error == std::errc() && end == last && std::isfinite(value) ? value : kNone;
}

std::vector<std::string> header_of(Fields& fields) {
  if (fields.at_end()) fields.fail("the file is empty, expected a line of column names");
  std::vector<std::string> names;
  do names.emplace_back(fields.next());
  while (!fields.line_ended());
  return names;
}

// For each column of the file, the places in the groups where its values go.
struct Target {
  std::size_t group, place;
};
std::vector<std::vector<Target>> targets_of(const CsvGroups& groups, const std::vector<std::string>& names,
                                            const std::string& path) {
  std::vector<std::vector<Target>> targets(names.size());
  for (std::size_t group = 0; group < groups.size(); ++group) {
    const auto& columns = groups[group].second;
    for (std::size_t place = 0; place < columns.size(); ++place) {
      const auto found = std::find(names.begin(), names.end(), columns[place]);
      if (found == names.end()) {
        throw_error(ErrorCode::not_found, "{}: no column {}{}", path, printable(columns[place]),
                    suggestion(columns[place], names));
      }
      if (std::find(found + 1, names.end(), columns[place]) != names.end()) {
        throw_error(kCorrupt, "{}: line 1: more than one column {}", path, printable(columns[place]));
      }
      targets[static_cast<std::size_t>(found - names.begin())].push_back({group, place});
    }
  }
  return targets;
}

}  // namespace

std::vector<std::vector<float>> read_csv(const Paths& paths, const CsvGroups& groups, char delimiter,
                                         FileSystem& files) {
  std::vector<std::vector<float>> values(groups.size());
  std::vector<std::string> names;
  std::vector<std::vector<Target>> targets;
  for (const std::string& path : paths) {
    const std::vector<char> content = files.read(path);
    Fields fields(path, {content.data(), content.size()}, delimiter);
    std::vector<std::string> header = header_of(fields);
    if (names.empty()) {
      names = std::move(header);
      targets = targets_of(groups, names, path);
    } else if (names != header) {
      throw_error(kCorrupt, "{}: line 1: the column names differ from those of {}", path, paths.front());
    }
    while (!fields.at_end()) {
      for (std::size_t g = 0; g < groups.size(); ++g) values[g].resize(values[g].size() + groups[g].second.size());
      std::size_t column = 0;
      do {
        const std::string_view field = fields.next();
        if (column == 0 && field.empty() && !fields.was_quoted() && fields.line_ended())
          fields.fail("the line is empty");
        if (column < targets.size() && !targets[column].empty()) {
          const float value = number(field);
          if (std::isnan(value)) {
            fields.fail(fmt::format("column {} is {}, expected a finite number", printable(names[column]),
                                    field.empty() ? "empty" : printable(field)));
          }
          for (const Target& to : targets[column]) {
            values[to.group][values[to.group].size() - groups[to.group].second.size() + to.place] = value;
          }
        }
        ++column;
      } while (!fields.line_ended());
      if (column != names.size()) {
        fields.fail(fmt::format("the line has {} field{}, expected {}, as in the header", column,
                                column == 1 ? "" : "s", names.size()));
      }
    }
  }
  if (values.front().empty()) throw_error(kCorrupt, "{}: no rows after the header", paths.front());
  return values;
}

}  // namespace giro::data
