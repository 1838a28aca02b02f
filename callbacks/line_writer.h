#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <giro/callbacks/metric_logger.h>
#include <giro/runtime/not_copied.h>

#include "callbacks/run_writer.h"

namespace giro::detail {

// Writes records to a file, a line each, in the format of a derived class. Lines are buffered, and written when there
// are many or some time has passed. Only the holder of a claim writes to it.
class LineWriter : public RunWriter, NotCopied {
 public:
  // Creates the directory and locks the file against other writers in this process and others. When the claim ends, the
  // buffered lines are written and the file is closed. Removes the leftovers of processes that died while replacing the
  // file. Error(invalid_argument) if another writer has the lock.
  std::shared_ptr<void> claim(std::shared_ptr<void> self) override;
  // The first call replaces the file, unless LoggerOptions::append is set or the run was resumed: then existing lines
  // of earlier steps are kept. Error(corrupt_data) if a line break follows the end of the last line, as after an
  // unclosed quote.
  void begin(const Elapsed& elapsed) override;
  void write(const MetricRecord& record) override;
  void flush() override;
  void persist(Archive& archive) override;
  // The same as flush, but without a sync to disk.
  void write_lines();

 protected:
  // `name` is for messages.
  LineWriter(std::string name, std::string path, LoggerOptions options);

  // Called before the first line is read or written.
  virtual void reset() {}
  // The position of the line break that ends the line of `text` at `begin`, or npos if there is none.
  virtual std::size_t line_end(std::string_view text, std::size_t begin) const { return text.find('\n', begin); }
  // Reads the next line of a file to append to, without its line break, LF or CR LF. Returns the step of its record, or
  // -1 if the line stays in any case.
  virtual std::int64_t read(const std::string& line) = 0;
  // Appends a record to the buffered lines, without a line break. Returns false if there is nothing to write.
  virtual bool append(std::string& text, const MetricRecord& record) = 0;

  // Replaces the whole file, completely or not at all. `content` gets all lines, including buffered ones.
  void replace(const std::function<std::string(const std::vector<std::string>& lines)>& content);
  [[noreturn]] void reject(const std::string& line, const std::string& expected) const;

 private:
  std::vector<std::string> read_lines() const;
  // Reopens a closed file if its size has not changed since. Returns whether it did.
  bool reopen();

  std::string name_;
  std::string path_;
  LoggerOptions options_;
  std::int64_t records_ = 0;             // in the file
  std::optional<std::int64_t> resumed_;  // how many of them belong to the resumed run
  std::weak_ptr<void> claim_;
  std::unique_ptr<FileSystem::Lock> lock_;
  std::unique_ptr<FileSystem::Writer> writer_;
  std::string text_;  // buffered lines
  bool has_begun_ = false;
  std::optional<std::uint64_t> bytes_;  // in the file; unset after a failed write
  double flushed_date_ = 0;
};

}  // namespace giro::detail
