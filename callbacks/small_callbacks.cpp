// Callbacks of a few lines.

#include <giro/callbacks/timer.h>

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <utility>

#include <giro/callbacks/check_replicas.h>
#include <giro/callbacks/learning_rate_monitor.h>
#include <giro/kernels/nn/var.h>
#include <giro/runtime/buffer.h>
#include <giro/runtime/files/archive.h>
#include <giro/runtime/tensor.h>

#include "kernels/ops.h"

namespace giro {

std::optional<Logs> Timer::operator()(const Elapsed& elapsed) {
  const std::optional<Elapsed> before = std::exchange(before_, elapsed);
  // If the clock was set back, the interval is unknown.
  if (!before || !(elapsed.date > before->date)) return std::nullopt;
  const Elapsed interval = elapsed - *before;
  const auto rate = [&](std::int64_t count) { return static_cast<double>(count) / interval.time(); };
  return logs()
      .add_entry("metrics", "steps_per_second", rate(interval.steps), LogSchema::Rule::last)
      .add_entry("metrics", "samples_per_second", rate(interval.samples), LogSchema::Rule::last);
}

void Timer::persist(Archive& archive) { archive("before", before_); }

Logs LearningRateMonitor::operator()(const State& state) const {
  // The current number: the leaf will change.
  const LogValue rate = LogValue(nn::Var(state.at("learning_rate"), state.stream())).value();
  return logs().add_entry("metrics", "learning_rate", rate, LogSchema::Rule::last);
}

void check_replicas(const State& state, const Partitioner& partitioner) {
  if (partitioner.size() == 1) return;
  const Buffer buffer = state.stream().allocate(sizeof(std::int64_t));
  const Tensor value(buffer.data(), DType::i64, {}, state.device());
  std::string lines;
  for (const auto& collection : state.collections()) {
    if (!collection->saved() || collection->is_sharded()) continue;
    queue(ops::Digest{value, collection->bytes()}, state.stream());
    lines += fmt::format("{}: {:016x}\n", collection->name(),
                         static_cast<std::uint64_t>(to_host<std::int64_t>(value, state.stream()).front()));
  }
  partitioner.expect_same("check_replicas: the state's bits", lines);
}

}  // namespace giro
