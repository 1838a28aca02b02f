#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <giro/callbacks/file_logger.h>

#include "callbacks/internal/log_file.h"
#include "callbacks/internal/run_writer.h"

namespace giro::detail {

// Writes a run's scalars, one line per record, in the format of a derived class.
class LineWriter : public RunWriter {
 public:
  std::shared_ptr<void> claim(std::shared_ptr<void> self) override { return file_.claim(std::move(self)); }
  void begin(const Elapsed& elapsed) override;
  void write(const Record& record) override;
  void flush() override { file_.sync(); }
  void persist(Archive& archive) override;

 protected:
  // `name` is for messages.
  LineWriter(std::string name, const std::string& path, const LoggerOptions& options, LogFile::LineEnd line_end)
      : name_(std::move(name)), file_(path, options, line_end) {}

  // Called before the first line is read or written.
  virtual void reset() {}
  // Reads the next line of a file to append to. Returns the step of its record, or -1 if it is not a record.
  virtual std::int64_t read(const std::string& line) = 0;
  // Appends a record of one or more scalars to the file's text, without a line break.
  virtual void append(const Elapsed& elapsed, const Record::Scalars& scalars) = 0;

  LogFile& file() { return file_; }
  [[noreturn]] void reject(const std::string& line, const std::string& expected) const;

 private:
  std::string name_;
  std::int64_t records_ = 0;             // in the file
  std::optional<std::int64_t> resumed_;  // how many of them belong to the resumed run
  LogFile file_;
};

}  // namespace giro::detail
