#include "callbacks/internal/log_file.h"

#include <fmt/format.h>

#include <cstddef>
#include <filesystem>
#include <utility>

#include <giro/runtime/error.h>

namespace giro::detail {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 16;

}  // namespace

LogFile::LogFile(std::string path, LoggerOptions options, LineEnd line_end)
    : path_(std::move(path)), options_(std::move(options)), line_end_(line_end) {
  if (path_.empty()) throw Error(ErrorCode::invalid_argument, "logger: the file's name is empty");
  if (!(options_.flush_interval >= 0)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("logger '{}': flush_interval is {}, expected at least 0", path_, options_.flush_interval));
  }
}

LogFile::~LogFile() {
  try {
    flush();
  } catch (...) {
    // Who wants to know has called flush; destructors do not throw.
  }
}

// Whole lines: what a crash has left of the last one is none.
std::vector<std::string> LogFile::read_lines() const {
  const std::vector<char> content = options_.files->read(path_);
  const std::string_view text(content.data(), content.size());
  std::vector<std::string> lines;
  std::size_t begin = 0;
  for (std::size_t end; (end = line_end_(text, begin)) != text.npos; begin = end + 1) {
    lines.emplace_back(text.substr(begin, end - begin));
    if (lines.back().ends_with('\r')) lines.back().pop_back();
  }
  if (text.find('\n', begin) != text.npos) {
    throw Error(ErrorCode::corrupt_data,
                fmt::format("logger: '{}' has a quote after line {} that nothing closes", path_, lines.size()));
  }
  return lines;
}

void LogFile::open(const std::function<bool(const std::string& line)>& stays) {
  flush();
  FileSystem& files = *options_.files;
  const std::filesystem::path parent = std::filesystem::path(path_).parent_path();
  if (!parent.empty()) files.create_directories(parent.string());
  if (!options_.append) {
    writer_ = files.create(path_);
    return;
  }
  std::string content;
  try {
    for (const std::string& line : read_lines()) {
      if (stays(line)) content.append(line).append(1, '\n');
    }
    replace_file(files, path_, content);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::not_found) throw;
  }
  writer_ = files.append(path_);
}

void LogFile::replace(const std::function<std::string(const std::vector<std::string>& lines)>& content) {
  flush();
  FileSystem& files = *options_.files;
  replace_file(files, path_, content(read_lines()));
  writer_ = files.append(path_);
}

void LogFile::end_line(double date) {
  text += '\n';
  // A clock that was set back shall not hold back the lines.
  if (text.size() < kBufferBytes && date >= flushed_date_ && date < flushed_date_ + options_.flush_interval) return;
  flush();
  flushed_date_ = date;
}

void LogFile::flush() {
  if (text.empty() || !writer_) return;
  // A line that could not be written whole is not written a second time.
  const std::string lines = std::exchange(text, {});
  writer_->write(lines.data(), lines.size());
}

void LogFile::sync() {
  flush();
  if (writer_) writer_->sync();
}

}  // namespace giro::detail
