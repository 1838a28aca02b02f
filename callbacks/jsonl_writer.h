#pragma once

#include <cstdint>
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

  void write_scalars(std::int64_t step, const Scalars& scalars) override;
  void write_images(std::int64_t step, const Arrays& images) override;
  void write_histograms(std::int64_t step, const Arrays& arrays) override;
  void write_texts(std::int64_t step, const Texts& texts) override;
  void write_hparams(const HParams& hparams) override;
  void flush() override;
  void close() override;

 private:
  void line(const std::string& text);

  std::shared_ptr<detail::LogFile> file_;
  std::shared_ptr<void> claim_;  // the lock, until it is closed
  bool is_closed_ = false;
};

}  // namespace giro
