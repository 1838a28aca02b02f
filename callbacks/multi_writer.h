#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <giro/callbacks/metric_writer.h>

namespace giro {

// A MetricWriter that passes every call on to several writers, in order. If one throws, the rest are still called, and
// then the first error is thrown.
class MultiWriter final : public MetricWriter {
 public:
  explicit MultiWriter(std::vector<std::shared_ptr<MetricWriter>> writers);

  void write_scalars(std::int64_t step, const Scalars& scalars) override;
  void write_images(std::int64_t step, const Arrays& images) override;
  void write_histograms(std::int64_t step, const Arrays& arrays) override;
  void write_texts(std::int64_t step, const Texts& texts) override;
  void write_hparams(const HParams& hparams) override;
  void flush() override;
  void close() override;

 private:
  std::vector<std::shared_ptr<MetricWriter>> writers_;
};

}  // namespace giro
