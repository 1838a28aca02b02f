#include <giro/callbacks/flip/summary_logger.h>

#include <fmt/format.h>

#include <algorithm>

namespace giro::flip {

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

}  // namespace giro::flip
