#pragma once

#include <cstdio>
#include <string>

#include <giro/callbacks/metric_writer.h>

namespace giro {

struct LoggingWriterOptions {
  std::FILE* out = stdout;      // must outlive the writer
  std::string collection = {};  // "[3] collection=train a=3": distinguishes writers to one file
};

// A MetricWriter that writes lines of text in CLU's format:
//   [3] a=3, b=0.15
// Scalars are sorted by tag and have 6 digits. Images are written as their shapes, other arrays as histograms of 30
// buckets, as in TensorBoard, or of one bucket if all elements are nearly equal. Output errors are ignored.
class LoggingWriter final : public MetricWriter {
 public:
  explicit LoggingWriter(const LoggingWriterOptions& options = {});

  void write(const MetricRecord& record) override;
  void flush() override;
  void close() override;

 private:
  LoggingWriterOptions options_;
  bool is_closed_ = false;
};

}  // namespace giro
