#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <giro/callbacks/file_logger.h>

namespace giro::detail {

// A file that grows by lines. They are gathered, and written when there are many or some time has passed. Only what
// has claimed it writes to it.
class LogFile {
 public:
  // Where the line of `text` that begins at `begin` ends: at its line break, or npos if there is none.
  using LineEnd = std::size_t (*)(std::string_view text, std::size_t begin);

  LogFile(std::string path, LoggerOptions options, LineEnd line_end);
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  const std::string& path() const noexcept { return path_; }
  bool is_open() const noexcept { return writer_ != nullptr; }
  bool appends() const noexcept { return options_.append; }
  void set_appends() noexcept { options_.append = true; }

  // Creates the directory, and keeps all others from writing to the file, here or in another process, until the last of
  // what this returns goes; then what was gathered is written, and the file closed. `owner` keeps this alive. Removes
  // what others left that died while they replaced the file. Error(invalid_argument) where another writes to it.
  std::shared_ptr<void> claim(std::shared_ptr<void> owner);
  // Opens a file again that was closed, if nobody has changed it since. Whether it did.
  bool reopen();
  // Creates the file, unless it was open before. With LoggerOptions::append the lines of what is there stay for which
  // `stays` says so. Lines are given without their breaks, LF or CR LF. Error(corrupt_data) for one with another's
  // break in it.
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
  void release() noexcept;

  std::string path_;
  LoggerOptions options_;
  LineEnd line_end_;
  std::weak_ptr<void> claim_;
  std::unique_ptr<FileSystem::Lock> lock_;
  std::unique_ptr<FileSystem::Writer> writer_;
  bool has_begun_ = false;
  std::optional<std::uint64_t> bytes_;  // in the file, as far as is known
  double flushed_date_ = 0;
};

}  // namespace giro::detail
