#include <giro/callbacks/tqdm_bar.h>

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "callbacks/line_of_text.h"
#include "callbacks/progress.h"

namespace giro {
namespace {

std::string format_interval(double seconds) {
  const auto s = static_cast<std::int64_t>(std::clamp(seconds, 0.0, 1e9));
  if (s >= 3600) return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
  return fmt::format("{:02}:{:02}", s / 60, s % 60);
}

std::string format_rate(double step_time, const std::string& unit) {
  if (step_time <= 0) return fmt::format("?{}/s", unit);
  if (step_time > 1) return fmt::format("{:5.2f}s/{}", step_time, unit);
  return fmt::format("{:5.2f}{}/s", 1 / step_time, unit);
}

// Ten levels per character.
std::string format_bar(double done, std::size_t width) {
  constexpr std::size_t kLevels = 10;
  const auto levels = static_cast<std::size_t>(done * static_cast<double>(width * kLevels));
  std::string bar(levels / kLevels, '#');
  if (bar.size() < width && levels % kLevels > 0) bar += static_cast<char>('0' + levels % kLevels);
  bar.resize(width, ' ');
  return bar;
}

std::string format_line(const detail::Progress& progress, const TqdmBarOptions& options, std::size_t columns) {
  constexpr std::size_t kDefaultWidth = 10;
  const detail::Progress::Goal goal = progress.goal();
  const bool has_total = goal.total > 0;
  std::string end = format_interval(progress.seconds());
  if (has_total) end.append(1, '<').append(goal.left ? format_interval(*goal.left) : "?");
  end += ", ";
  end += format_rate(progress.step_time(), options.unit);
  for (const auto& [name, value] : progress.shown()) end += fmt::format(", {}={:.3g}", name, value);
  end += "]";
  const std::string begin = options.desc.empty() ? std::string() : options.desc + ": ";
  if (!has_total) return fmt::format("{}{}{} [{}", begin, progress.steps(), options.unit, end);

  const double done = goal.done / goal.total;
  const std::string before = fmt::format("{}{:3.0f}%|", begin, done * 100);
  const std::string behind = fmt::format("| {}/{} [{}", goal.text(goal.done), goal.text(goal.total), end);
  std::size_t width = options.width > 0 ? static_cast<std::size_t>(options.width) : kDefaultWidth;
  if (options.width == 0 && columns > 0) {
    const std::size_t others = detail::line_of(before + behind).columns;
    width = columns > others ? columns - others : 1;
  }
  return before + format_bar(done, width) + behind;
}

}  // namespace

TqdmBar::TqdmBar(const TqdmBarOptions& options)
    : ProgressBar(
          std::make_shared<detail::Progress>(detail::Progress::options_of("tqdm_bar", options, 0), "",
                                             [options](const detail::Progress& progress, bool, std::size_t columns) {
                                               return format_line(progress, options, columns);
                                             })) {}

}  // namespace giro
