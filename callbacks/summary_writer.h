#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <giro/callbacks/metric_writer.h>
#include <giro/runtime/files/file_system.h>

namespace giro {

struct SummaryWriterOptions {
  // The first step that this writes. TensorBoard drops the records of the directory's earlier files from that step on.
  std::optional<std::int64_t> purge_step = {};
  // The earlier files belong to the same run, which continues at purge_step: their records from that step on are
  // removed, as if there had been no interruption.
  bool resume = false;
  double flush_interval = 5;  // seconds; the first write after this flushes
  std::int64_t histogram_buckets = 30;
  std::shared_ptr<FileSystem> files = posix_file_system();
};

// A MetricWriter whose directory TensorBoard shows as a run. Each writer writes its own file there and locks the
// directory against others. After a crash the file can be read, except for a record that was being written.
//
//   giro::SummaryWriter writer("logdir/tensorboard");
//   writer.write_scalars(step, {{"train/loss", loss}});
//
// Scalars are stored as f32. Elements of an array that are not finite are in no bucket of its histogram; if there are
// any, the scalar "<tag>/not_finite" counts them. Floating-point images are clipped to 0 to 1, and NaN becomes 0. Use
// it from one thread at a time. Errors beyond those of MetricWriter: invalid_argument for an empty directory name, an
// option out of range, a directory that another writer has locked, text that is not UTF-8 or a hyperparameter that is
// not finite; unsupported for an image that PNG cannot hold.
class SummaryWriter final : public MetricWriter {
 public:
  explicit SummaryWriter(const std::string& dir, const SummaryWriterOptions& options = {});
  SummaryWriter(SummaryWriter&&) noexcept = default;
  SummaryWriter& operator=(SummaryWriter&&) noexcept = default;
  ~SummaryWriter() override;

  void write(const MetricRecord& record) override;
  void flush() override;
  void close() override;

  // Flushes, and syncs the file to disk.
  void sync();

 private:
  friend class TensorBoard;
  struct Impl;
  Impl& impl() const;
  // Applies SummaryWriterOptions::purge_step, once the step is known.
  void purge(std::int64_t step, bool resume);

  std::shared_ptr<Impl> impl_;  // null once moved from
};

}  // namespace giro
