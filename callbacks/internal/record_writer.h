#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <giro/callbacks/file_logger.h>

#include "callbacks/internal/log_file.h"

namespace giro::detail {

// Writes the records of a FileLogger, in the format of a derived class.
class RecordWriter {
 public:
  virtual ~RecordWriter() = default;

  // See LogFile.
  std::shared_ptr<void> claim(std::shared_ptr<void> owner) { return file_.claim(std::move(owner)); }
  // Call this when a loop begins, with its first step.
  void start(std::int64_t first);
  void write(const Elapsed& elapsed, const Logs& logs);
  void sync() { file_.sync(); }
  void persist(Archive& archive);

 protected:
  // `name` is for messages.
  RecordWriter(std::string name, const std::string& path, const LoggerOptions& options, LogFile::LineEnd line_end)
      : name_(std::move(name)), file_(path, options, line_end) {}

  // Called before the first line is read or written.
  virtual void begin() {}
  // Reads the next line of a file to append to. Returns the step of its record, or -1 if it is not a record.
  virtual std::int64_t read(const std::string& line) = 0;
  // Appends a record of one or more numbers to the file's text, without a line break.
  virtual void append(const Elapsed& elapsed, const std::vector<Logs::Entry>& numbers) = 0;

  LogFile& file() { return file_; }
  [[noreturn]] void reject(const std::string& line, const std::string& expected) const;

 private:
  std::string name_;
  std::int64_t records_ = 0;             // in the file
  std::optional<std::int64_t> resumed_;  // how many of them belong to the resumed run
  LogFile file_;
  std::vector<Logs::Entry> numbers_;
};

}  // namespace giro::detail
