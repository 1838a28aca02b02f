#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <giro/callbacks/metric_writer.h>
#include <giro/runtime/file_system.h>

namespace giro {

struct SummaryWriterOptions {
  // The step from which on the directory's earlier files are not to be shown: that at which what is written now begins.
  std::optional<std::int64_t> purge_step = {};
  // They are of the same run, which goes on from there: they lose those records, as if there had been no interruption.
  bool resume = false;
  double flush_interval = 5;  // seconds after which the next write brings all to the file, as flush does
  std::int64_t histogram_buckets = 30;
  std::shared_ptr<FileSystem> files = posix_file_system();
};

// A MetricWriter whose directory TensorBoard shows as a run. Each one writes a file of its own there, and nobody else
// may write meanwhile. What is in the file can be read after a crash, but for a record that was being written.
//
//   giro::SummaryWriter writer("logdir/tensorboard");
//   writer.write_scalars(step, {{"train/loss", loss}});
//
// Scalars are kept as f32. The elements of an array that are not finite are in no bucket of its histogram; if there
// are any, the scalar "<tag>/not_finite" says how many. Floating-point images are clipped to 0 to 1, where NaN is 0.
// For one thread at a time. Errors besides a MetricWriter's: invalid_argument for an empty directory name, an option
// out of range, a directory that is being written, a text that is not UTF-8 or a hyperparameter that is not finite;
// unsupported for an image that PNG does not have.
class SummaryWriter final : public MetricWriter {
 public:
  explicit SummaryWriter(const std::string& dir, const SummaryWriterOptions& options = {});
  SummaryWriter(SummaryWriter&&) noexcept;
  SummaryWriter& operator=(SummaryWriter&&) noexcept;
  ~SummaryWriter() override;

  void write_scalars(std::int64_t step, const Scalars& scalars) override;
  void write_images(std::int64_t step, const Arrays& images) override;
  void write_histograms(std::int64_t step, const Arrays& arrays) override;
  void write_texts(std::int64_t step, const Texts& texts) override;
  void write_hparams(const HParams& hparams) override;
  void flush() override;
  void close() override;

  // Flushes, also across a power loss.
  void sync();

 private:
  friend class TensorBoard;
  struct Impl;
  // SummaryWriterOptions::purge_step, once it is known.
  void purge(std::int64_t step, bool resume);

  std::shared_ptr<Impl> impl_;
};

}  // namespace giro
