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

// Writes the records of a FileLogger, in a format that a derived class knows.
class RecordWriter {
 public:
  virtual ~RecordWriter() = default;

  // See LogFile.
  std::shared_ptr<void> claim(std::shared_ptr<void> owner) { return file_.claim(std::move(owner)); }
  // Before the step number `first` is logged, when a loop begins.
  void start(std::int64_t first);
  void write(const Elapsed& elapsed, const Logs& logs);
  void sync() { file_.sync(); }
  void persist(Archive& archive);

 protected:
  // `name` is for messages.
  RecordWriter(std::string name, const std::string& path, const LoggerOptions& options, LogFile::LineEnd line_end)
      : name_(std::move(name)), file_(path, options, line_end) {}

  // Before the first line is read or written.
  virtual void begin() {}
  // Takes the next line of a file that is to be appended to. The step that the line is a record of, or -1: it is none.
  virtual std::int64_t read(const std::string& line) = 0;
  // Appends a record of one number or more to the file's text, but for the line's end.
  virtual void append(const Elapsed& elapsed, const std::vector<Logs::Entry>& numbers) = 0;

  LogFile& file() { return file_; }
  [[noreturn]] void refuse(const std::string& line, const std::string& expected) const;

 private:
  std::string name_;
  std::int64_t records_ = 0;             // in the file
  std::optional<std::int64_t> resumed_;  // so many of them belong to the run that goes on
  LogFile file_;
  std::vector<Logs::Entry> numbers_;
};

}  // namespace giro::detail
