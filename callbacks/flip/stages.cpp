// Summaries, and what is done with one after another.

#include <giro/callbacks/flip/checkpoint.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include <giro/callbacks/flip/checkpoint_files.h>
#include <giro/callbacks/flip/summary_logger.h>
#include <giro/callbacks/flip/summary_writer.h>
#include <giro/runtime/files/checkpoint_store.h>

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

namespace detail {

std::string best_dir(const std::string& dir, bool highest, const std::string& group, const std::string& metric) {
  return fmt::format("{}/{}_{}_{}", dir, highest ? "highest" : "lowest", group, metric);
}

template <bool kHighest>
BestCheckpointFileWriter<kHighest>::BestCheckpointFileWriter(const std::string& output_dir, const std::string& metric,
                                                             const std::string& group,
                                                             std::function<void(const std::string& line)> log)
    : dir_(best_dir(output_dir, kHighest, group, metric)),
      metric_(metric),
      group_(group),
      log_(std::move(log)),
      // A training that went back to an earlier step replaces its later checkpoints.
      save_(giro::checkpoint(dir_,
                             {.overwrite = true, .monitor = group + "/" + metric, .mode = kHighest ? "max" : "min"})) {}

template <bool kHighest>
Summary BestCheckpointFileWriter<kHighest>::operator()(Summary summary) {
  const double value = summary.metric(group_, metric_);
  const std::string verdict = decide_on_rank_0(summary.state().partitioner().get(), [&] {
    if (!std::exchange(has_begun_, true)) {
      for (const StoredCheckpoint& stored : CheckpointStore(dir_).all()) {
        if (stored.record.steps <= summary.step && stored.record.best) best_ = stored.record.best;
      }
      if (best_ && log_) {
        log_(fmt::format("The {} value for the metric {}/{} is set to {:.8f}.", kHighest ? "highest" : "lowest", group_,
                         metric_, *best_));
      }
    }
    return !std::isnan(value) && (!best_ || (kHighest ? value >= *best_ : value <= *best_)) ? "best" : "";
  });
  if (verdict.empty()) return summary;
  if (save_(summary.elapsed, summary.state(), value)) best_ = value;
  return summary;
}

template class BestCheckpointFileWriter<false>;
template class BestCheckpointFileWriter<true>;

}  // namespace detail

Restored CheckpointFileReader::operator()(TrainState& state) const {
  return CheckpointStore(dir_).latest_steps() < 0 ? Restored{} : restore(state, dir_);
}

}  // namespace giro::flip
