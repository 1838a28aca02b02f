#pragma once

#include <memory>
#include <string>

#include <giro/callbacks/metric_logger.h>
#include <giro/callbacks/metric_writer.h>
#include <giro/runtime/not_copied.h>

namespace giro {

// A MetricWriter that writes JSON, one object per line:
//   {"step":3,"scalars":{"loss":0.5}}
// and likewise "texts", "hparams" (without a step), "images", each {"dtype":"u8","shape":[28,28,1]}, and "histograms",
// each {"edges":[...],"counts":[...]}. Numbers are written as by jsonl_logger, which writes the logs of a loop. With
// LoggerOptions::append existing lines stay. The file is locked until the writer is closed.
class JsonlWriter final : public MetricWriter, detail::NotCopied {
 public:
  // Errors: invalid_argument (no name, a negative flush_interval, a file that another writer has locked), io.
  explicit JsonlWriter(const std::string& path, const LoggerOptions& options = {});

  void write(const MetricRecord& record) override;
  void flush() override;
  void close() override;

 private:
  class Lines;
  std::shared_ptr<Lines> lines_;
  std::shared_ptr<void> claim_;  // the lock; null once it is closed
};

}  // namespace giro
