#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <giro/callbacks/file_logger.h>

namespace giro::detail {

// A file that grows by lines. They are gathered, and written when there are many or some time has passed.
class LogFile {
 public:
  // Where the line of `text` that begins at `begin` ends: at its line break, or npos if there is none.
  using LineEnd = std::size_t (*)(std::string_view text, std::size_t begin);

  LogFile(std::string path, LoggerOptions options, LineEnd line_end);
  ~LogFile();
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  const std::string& path() const noexcept { return path_; }
  bool is_open() const noexcept { return writer_ != nullptr; }
  bool appends() const noexcept { return options_.append; }
  void set_appends() noexcept { options_.append = true; }

  // Creates the directory and the file. With LoggerOptions::append the lines of what is there stay for which `stays`
  // says so. Lines are given without their breaks, LF or CR LF. Error(corrupt_data) for one with another's break in it.
  void open(const std::function<bool(const std::string& line)>& stays);
  // What the whole file holds, at once or not at all, with the lines that were not written yet.
  void replace(const std::function<std::string(const std::vector<std::string>& lines)>& content);

  std::string text;  // of the line so far, and of those before it that were not written yet
  void end_line(double date);
  void flush();
  // Also across a power loss.
  void sync();

 private:
  std::vector<std::string> read_lines() const;

  std::string path_;
  LoggerOptions options_;
  LineEnd line_end_;
  std::unique_ptr<FileSystem::Writer> writer_;
  double flushed_date_ = 0;
};

}  // namespace giro::detail
