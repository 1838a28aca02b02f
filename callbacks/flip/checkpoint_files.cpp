#include <giro/callbacks/flip/checkpoint_files.h>

#include <fmt/format.h>

#include <cmath>

#include <giro/runtime/files/checkpoint_store.h>

namespace giro::flip {
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
