#pragma once

#include <memory>
#include <vector>

#include <giro/callbacks/metric_writer.h>

namespace giro {

// A MetricWriter that passes every call on to several writers, in order. If one throws, the rest are still called, and
// then the first error is thrown.
class MultiWriter final : public MetricWriter {
 public:
  explicit MultiWriter(std::vector<std::shared_ptr<MetricWriter>> writers);

  void write(const MetricRecord& record) override;
  void flush() override;
  void close() override;

 private:
  std::vector<std::shared_ptr<MetricWriter>> writers_;
};

}  // namespace giro
