#include <giro/callbacks/keras_bar.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "callbacks/progress.h"

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

std::string heading_of(const KerasBarOptions& options) {
  if (!options.epoch) return "";
  const std::string of = options.num_epochs ? fmt::format("/{}", *options.num_epochs) : "";
  return fmt::format("Epoch {}{}", *options.epoch + 1, of);
}

}  // namespace

KerasBar::KerasBar(const KerasBarOptions& options)
    : ProgressBar(std::make_shared<detail::Progress>(
          detail::Progress::options_of("keras_bar", options, 1), heading_of(options),
          [width = options.width, unit = options.unit_name](const detail::Progress& progress, bool final, std::size_t) {
            return format_line(progress, final, width, unit);
          })) {}

}  // namespace giro
