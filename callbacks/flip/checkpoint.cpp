#include <giro/callbacks/flip/checkpoint.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include <giro/callbacks/flip/summary_logger.h>
#include <giro/callbacks/flip/summary_writer.h>

#include "runtime/text.h"
#include "runtime/throw_error.h"

namespace giro::flip {

double Summary::metric(std::string_view group, std::string_view label) const {
  std::vector<std::string> known;
  for (const Metric& metric : metrics) {
    if (metric.group == group && metric.label == label) return metric.value;
    known.push_back(metric.group + "/" + metric.label);
  }
  const std::string wanted = fmt::format("{}/{}", group, label);
  throw_error(ErrorCode::not_found, "the summary of step {} has no metric '{}'{}", step, wanted,
              suggestion(wanted, known));
}

Summary SummaryLogger::operator()(Summary summary) const {
  if (!summary.is_primary()) return summary;
  std::size_t group_width = 0, label_width = 0;
  for (const Summary::Metric& metric : summary.metrics) {
    group_width = std::max(group_width, metric.group.size());
    label_width = std::max(label_width, metric.label.size());
  }
  std::string text = fmt::format("Step {:6d}: Ran {} train steps in {:.2f} seconds\n", summary.step,
                                 summary.n_completed_steps, summary.elapsed_time);
  for (const Summary::Metric& metric : summary.metrics) {
    text += fmt::format("Step {:6d}: {:<{}} {:>{}} | {:.8f}\n", summary.step, metric.group, group_width, metric.label,
                        label_width, metric.value);
  }
  text += '\n';
  std::fwrite(text.data(), 1, text.size(), out_);
  std::fflush(out_);
  return summary;
}

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
