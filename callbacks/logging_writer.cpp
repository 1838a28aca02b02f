#include <giro/callbacks/logging_writer.h>

#include <fmt/format.h>

#include <algorithm>

#include "callbacks/histogram_buckets.h"
#include "callbacks/run_writer.h"
#include "loop/log/record_text.h"
#include "runtime/throw_error.h"

namespace giro {
namespace {

std::string listed(const std::vector<std::string>& items) { return fmt::format("{}", fmt::join(items, ", ")); }

// The lines that a record becomes, without what comes before each.
std::vector<std::string> lines_of(MetricRecord::Scalars scalars) {
  std::sort(scalars.begin(), scalars.end());
  std::vector<std::string> values;
  for (const auto& [tag, value] : scalars) {
    values.push_back(fmt::format("{}={:.6g}", tag.path(), detail::without_nan_sign(value)));
  }
  return {listed(values)};
}

std::vector<std::string> lines_of(const MetricRecord::Images& images) {
  std::vector<std::string> shapes;
  for (const auto& [tag, image] : images) shapes.push_back(fmt::format("{}: {}", tag.path(), to_string(image.shape())));
  return {fmt::format("Got images: {{{}}}.", listed(shapes))};
}

std::vector<std::string> lines_of(const MetricRecord::Histograms& arrays) {
  std::vector<std::string> lines;
  for (const auto& [tag, array] : arrays) {
    const auto [edges, counts] = detail::histogram_of(array);
    std::vector<std::string> buckets;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const char* const end = i + 1 < counts.size() ? ")" : "]";
      buckets.push_back(fmt::format("[{:.3g}, {:.3g}{}: {}", edges[i], edges[i + 1], end, counts[i]));
    }
    lines.push_back(fmt::format("Histogram for '{}' = {{{}}}", tag.path(), listed(buckets)));
  }
  return lines;
}

std::vector<std::string> lines_of(const MetricRecord::Texts& texts) {
  std::vector<std::string> lines;
  for (const auto& [tag, text] : texts) lines.push_back(fmt::format("{}: {}", tag.path(), text));
  return lines;
}

std::vector<std::string> lines_of(const MetricRecord::HParams& hparams) {
  std::vector<std::string> values;
  for (const auto& [tag, hparam] : hparams) {
    values.push_back(
        std::visit([&tag = tag](const auto& value) { return fmt::format("{}={}", tag.path(), value); }, hparam.value));
  }
  return {listed(values)};
}

}  // namespace

LoggingWriter::LoggingWriter(const LoggingWriterOptions& options) : options_(options) {
  if (options_.out == nullptr) throw_invalid("LoggingWriter: `out` is null");
}

void LoggingWriter::write(const MetricRecord& record) {
  detail::expect_writable("LoggingWriter", !is_closed_, record);
  std::string head = std::holds_alternative<MetricRecord::HParams>(record.values)
                         ? "[Hyperparameters]"
                         : fmt::format("[{}]", record.elapsed.steps);
  if (!options_.collection.empty()) head += " collection=" + options_.collection;
  for (const std::string& line : std::visit([](const auto& values) { return lines_of(values); }, record.values)) {
    std::fputs(fmt::format("{} {}\n", head, line).c_str(), options_.out);
  }
}

void LoggingWriter::flush() {
  detail::expect_open("LoggingWriter", !is_closed_);
  std::fflush(options_.out);
}
void LoggingWriter::close() {
  if (is_closed_) return;
  flush();
  is_closed_ = true;
}

}  // namespace giro
