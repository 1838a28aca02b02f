#include <giro/callbacks/flip/summary_writer.h>

#include <utility>

namespace giro::flip {

SummaryWriter::SummaryWriter(std::string output_dir, SummaryWriterOptions options)
    : dir_(std::move(output_dir)), options_(std::move(options)) {}

Summary SummaryWriter::operator()(Summary summary) {
  if (!summary.is_primary()) return summary;
  if (!writer_) {
    if (!options_.purge_step) options_.purge_step = summary.step;
    writer_ = std::make_unique<giro::SummaryWriter>(dir_, options_);
  }
  MetricWriter::Scalars scalars;
  for (const Summary::Metric& metric : summary.metrics) {
    scalars.emplace_back(metric.group + "/" + metric.label, metric.value);
  }
  writer_->write_scalars(summary.step, scalars);
  return summary;
}

void SummaryWriter::flush() {
  if (writer_) writer_->flush();
}

}  // namespace giro::flip
