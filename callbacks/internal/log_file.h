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

// A file that grows by lines. They are buffered, and written when there are many or some time has passed. Only the
// holder of a claim writes to it.
class LogFile {
 public:
  // The position of the line break that ends the line of `text` at `begin`, or npos if there is none.
  using LineEnd = std::size_t (*)(std::string_view text, std::size_t begin);

  LogFile(std::string path, LoggerOptions options, LineEnd line_end);
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  const std::string& path() const noexcept { return path_; }
  bool is_open() const noexcept { return writer_ != nullptr; }
  bool appends() const noexcept { return options_.append; }
  void set_appends() noexcept { options_.append = true; }

  // Creates the directory and locks the file against other writers in this process and others, until the last copy of
  // the returned pointer is destroyed. Then the buffered lines are written and the file is closed. `owner` keeps this
  // alive. Removes the leftovers of processes that died while replacing the file. Error(invalid_argument) if another
  // writer has the lock.
  std::shared_ptr<void> claim(std::shared_ptr<void> owner);
  // Reopens a closed file if its size has not changed since. Returns whether it did.
  bool reopen();
  // The first call replaces the file, unless LoggerOptions::append is set. Otherwise existing lines are kept if `stays`
  // returns true for them. Lines are passed without their line breaks, LF or CR LF. Error(corrupt_data) if a line break
  // follows the end of the last line, as after an unclosed quote.
  void open(const std::function<bool(const std::string& line)>& stays);
  // Replaces the whole file, completely or not at all. `content` gets all lines, including buffered ones.
  void replace(const std::function<std::string(const std::vector<std::string>& lines)>& content);

  std::string text;  // buffered lines, and the unfinished one
  void end_line(double date);
  void flush();
  // Flushes, and syncs the file to disk.
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
  std::optional<std::uint64_t> bytes_;  // in the file; unset after a failed write
  double flushed_date_ = 0;
};

}  // namespace giro::detail
