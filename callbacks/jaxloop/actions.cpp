#include <giro/callbacks/jaxloop/actions.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include <giro/callbacks/jaxloop/loops.h>
#include <giro/runtime/files/archive.h>
#include <giro/runtime/files/file_system.h>

#include "runtime/throw_error.h"

namespace giro::jaxloop {
namespace {

nn::Direction direction_by_name(const std::string& metric) {
  if (metric.ends_with("acc") || metric.ends_with("accuracy") || metric.ends_with("auc")) return nn::Direction::higher;
  return metric.ends_with("loss") ? nn::Direction::lower : nn::Direction::unknown;
}

}  // namespace

Action summary_action(MetricWriter& writer, const SummaryActionOptions& options) {
  return Action(
      [&writer, flushes = options.flush_each_call, names = options.images](TrainState& state, LoopOutputs& outputs) {
        if (!state.is_primary()) return;
        MetricWriter::Scalars scalars;
        for (const auto& [name, values] : outputs.scalars) {
          if (!values.empty()) scalars.emplace_back(name, outputs.mean(name));
        }
        MetricWriter::Arrays arrays, images;
        for (const auto& [name, values] : outputs.arrays) {
          const bool is_image = std::find(names.begin(), names.end(), name) != names.end();
          if (!values.empty()) (is_image ? images : arrays).emplace_back(name, outputs.array(name));
        }
        const std::int64_t step = step_of(state);
        if (!scalars.empty()) writer.write_scalars(step, scalars);
        if (!arrays.empty()) writer.write_histograms(step, arrays);
        if (!images.empty()) writer.write_images(step, images);
        if (flushes) writer.flush();
      },
      options.interval);
}

Action checkpoint_action(const std::string& dir, std::int64_t interval, const CheckpointOptions& options) {
  return Action(
             [save = checkpoint(dir, options)](TrainState& state, LoopOutputs& outputs) mutable {
               Elapsed elapsed;
               elapsed.steps = step_of(state);
               elapsed.date = elapsed.date_start = Elapsed::now();
               (void)save(elapsed, state, {}, outputs.memory);
             },
             interval)
      .run_last();
}

Action step_number_action(const std::string& path, std::int64_t interval) {
  return Action(
      [path](TrainState& state, LoopOutputs&) {
        if (!state.is_primary()) return;
        const std::string line = fmt::format("{:.6f} {}\n", Elapsed::now(), step_of(state));
        const auto writer = posix_file_system()->append(path);
        writer->write(line.data(), line.size());
        writer->close();
      },
      interval);
}

MetricMonitoringStopHandler::MetricMonitoringStopHandler(const std::string& metric,
                                                         const MetricMonitoringStopHandlerOptions& options)
    : monitor_(metric, options.mode, std::abs(options.min_delta)),
      patience_(options.patience),
      patience_left_(options.patience) {
  monitor_.begin({.steps = 1});  // a loop without the metric is no error
  if (options.baseline) monitor_.update(*options.baseline);
}

std::optional<double> MetricMonitoringStopHandler::value_in(const LoopOutputs& outputs, const Partitioner* ranks) {
  nn::Direction direction = nn::Direction::unknown;
  for (std::size_t i = 0; i < outputs.combined.schema().size(); ++i) {
    if (outputs.combined.schema()[i].name == metric()) direction = outputs.combined.schema().direction(i);
    if (direction != nn::Direction::unknown) break;
  }
  if (direction == nn::Direction::unknown) direction = direction_by_name(metric());
  Logs logs;
  if (outputs.scalars.contains(metric())) {
    logs.add("metrics", metric(), {.direction = direction}, outputs.mean(metric()));
  }
  return monitor_.value(logs, ranks);
}

bool MetricMonitoringStopHandler::update(double value, std::int64_t step) {
  monitor_.learn_mode(direction_by_name(metric()));
  monitor_.expect_mode();
  if (std::isnan(value)) throw_invalid("early stopping: '{}' is NaN at step {}", metric(), step);
  if (monitor_.update(value)) {
    best_step_ = step;
    patience_left_ = patience_;
  } else {
    --patience_left_;
  }
  return patience_left_ <= 0;
}

void MetricMonitoringStopHandler::persist(Archive& archive) {
  monitor_.persist(archive);
  archive("best_step", best_step_)("patience_left", patience_left_);
}

Action early_stopping_action(const std::shared_ptr<MetricMonitoringStopHandler>& handler, std::int64_t interval,
                             std::function<void(const std::string& line)> log) {
  if (!handler) throw_invalid("early_stopping_action: there is no handler");
  return Action(
      [handler, log = std::move(log)](TrainState& state, LoopOutputs& outputs) {
        const std::optional<double> value = handler->value_in(outputs, state.partitioner().get());
        if (!value) {
          if (log) log(fmt::format("early stopping: the loop has no '{}'", handler->metric()));
          return;
        }
        if (handler->update(*value, step_of(state))) outputs.stop_loop = true;
      },
      interval, [handler](Archive& archive) { handler->persist(archive); });
}

}  // namespace giro::jaxloop
