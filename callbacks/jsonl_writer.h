#pragma once

#include <memory>
#include <string>

#include <giro/callbacks/file_logger.h>
#include <giro/callbacks/metric_writer.h>

namespace giro {

namespace detail {
class LogFile;
}

// A MetricWriter that writes JSON, one object per line:
//   {"step":3,"scalars":{"loss":0.5}}
// and likewise "texts", "hparams" (without a step), "images", each {"dtype":"u8","shape":[28,28,1]}, and "histograms",
// each {"edges":[...],"counts":[...]}. Numbers are written as by jsonl_logger, which writes the logs of a loop. With
// LoggerOptions::append existing lines stay. The file is locked until the writer is closed.
class JsonlWriter final : public MetricWriter {
 public:
  // Errors: invalid_argument (no name, a negative flush_interval, a file that another writer has locked), io.
  explicit JsonlWriter(const std::string& path, const LoggerOptions& options = {});
  ~JsonlWriter() override;
  JsonlWriter(const JsonlWriter&) = delete;
  JsonlWriter& operator=(const JsonlWriter&) = delete;

  void write(const Record& record) override;
  void flush() override;
  void close() override;

 private:
  std::shared_ptr<detail::LogFile> file_;
  std::shared_ptr<void> claim_;  // the lock, until it is closed
  bool is_closed_ = false;
};

}  // namespace giro
