#include <giro/callbacks/keras_bar.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include <giro/loop/time/schedule.h>
#include <giro/runtime/error.h>

#include "callbacks/internal/progress.h"

namespace giro {
namespace {

std::string format_eta(double seconds) {
  const auto s = static_cast<std::int64_t>(std::clamp(seconds, 0.0, 1e9));
  if (s > 3600) return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
  if (s > 60) return fmt::format("{}:{:02}", s / 60, s % 60);
  return fmt::format("{}s", s);
}

std::string format_step_time(double seconds, const std::string& unit) {
  if (seconds >= 1 || seconds <= 0) return fmt::format("{:.0f}s/{}", std::max(seconds, 0.0), unit);
  if (seconds >= 1e-3) return fmt::format("{:.0f}ms/{}", seconds * 1e3, unit);
  return fmt::format("{:.0f}us/{}", seconds * 1e6, unit);
}

std::string format_line(const detail::Progress& progress, bool final, int width, const std::string& unit) {
  std::string text;
  const detail::Progress::Goal goal = progress.goal();
  const bool has_total = goal.total > 0;
  if (has_total) {
    const std::string total = goal.text(goal.total);
    const auto done = static_cast<std::size_t>(goal.done / goal.total * width);
    std::string bar(done, '=');
    if (done > 0 && goal.done < goal.total) bar.back() = '>';
    bar.resize(static_cast<std::size_t>(width), '.');
    text = fmt::format("{:>{}}/{} [{}]", goal.text(goal.done), total.size(), total, bar);
  } else {
    text = fmt::format("{:>7}/Unknown", progress.steps());
  }
  if (final || !has_total) {
    text += fmt::format(" - {:.0f}s {}", progress.seconds(), format_step_time(progress.step_time(), unit));
  } else if (progress.steps_here() > 1) {
    text += fmt::format(" - ETA: {}", format_eta(goal.left.value_or(0)));
  }
  for (const auto& [name, value] : progress.shown()) {
    text +=
        std::abs(value) > 1e-3 ? fmt::format(" - {}: {:.4f}", name, value) : fmt::format(" - {}: {:.4e}", name, value);
  }
  return text;
}

}  // namespace

KerasBar::KerasBar(const KerasBarOptions& options) {
  if (!detail::Progress::can_show(options.total) || options.width < 1 || options.out == nullptr) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("keras_bar: total is {}, width is {}, out is {}; expected total >= 0, width >= 1, a file",
                            to_string(options.total), options.width, options.out == nullptr ? "null" : "a file"));
  }
  std::string heading;
  if (options.epoch) heading = fmt::format("Epoch {}", *options.epoch + 1);
  if (options.epoch && options.num_epochs) heading += fmt::format("/{}", *options.num_epochs);
  progress_ = std::make_shared<detail::Progress>(
      detail::Progress::Options{options.total, options.interval, options.file_interval, options.stateful_metrics,
                                options.always_stateful, options.out},
      std::move(heading),
      [width = options.width, unit = options.unit_name](const detail::Progress& progress, bool final, std::size_t) {
        return format_line(progress, final, width, unit);
      });
}

void KerasBar::operator()(const Elapsed& elapsed, const Logs& logs) { progress_->update(elapsed, logs); }
void KerasBar::persist(Archive& archive) { progress_->persist(archive); }
void KerasBar::on_end(const Elapsed& elapsed) { progress_->end(elapsed); }

}  // namespace giro
