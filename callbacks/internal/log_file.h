#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <giro/callbacks/logger_options.h>

namespace giro::detail {

// A file that grows by lines. They are gathered, and written when there are many or some time has passed.
class LogFile {
 public:
  LogFile(std::string path, LoggerOptions options);
  ~LogFile();
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  const std::string& path() const noexcept { return path_; }
  bool is_open() const noexcept { return writer_ != nullptr; }
  bool appends() const noexcept { return options_.append; }

  // Creates the directory and the file. With LoggerOptions::append the lines of what is there stay for which `stays`
  // says so, and those are returned.
  std::vector<std::string> open(const std::function<bool(const std::string& line)>& stays);
  // What the whole file holds, at once or not at all, with the lines that were not written yet.
  void replace(const std::function<std::string(const std::vector<std::string>& lines)>& content);

  std::string text;  // of the line so far, and of those before it that were not written yet
  void end_line(double date);
  void flush();
  // Also across a power loss.
  void sync();

 private:
  std::string path_;
  LoggerOptions options_;
  std::unique_ptr<FileSystem::Writer> writer_;
  double flushed_date_ = 0;
};

}  // namespace giro::detail
