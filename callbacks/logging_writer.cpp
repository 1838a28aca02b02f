#include <giro/callbacks/logging_writer.h>

#include <fmt/format.h>

#include <algorithm>

#include <giro/runtime/error.h>

#include "callbacks/internal/metric_text.h"
#include "loop/log/internal/record_text.h"

namespace giro {
namespace {

constexpr const char* kLoggingWriter = "LoggingWriter";

std::string listed(const std::vector<std::string>& items) { return fmt::format("{}", fmt::join(items, ", ")); }

std::string text_of(const detail::Histogram& histogram) {
  std::vector<std::string> buckets;
  for (std::size_t i = 0; i < histogram.counts.size(); ++i) {
    buckets.push_back(fmt::format("[{:.3g}, {:.3g}{}: {}", histogram.edges[i], histogram.edges[i + 1],
                                  i + 1 < histogram.counts.size() ? ")" : "]", histogram.counts[i]));
  }
  return listed(buckets);
}

}  // namespace

LoggingWriter::LoggingWriter(const LoggingWriterOptions& options) : options_(options) {
  if (options_.out == nullptr) throw Error(ErrorCode::invalid_argument, "LoggingWriter: `out` is null");
}

void LoggingWriter::expect_open() const {
  if (is_closed_) detail::reject_closed(kLoggingWriter);
}

void LoggingWriter::line(std::int64_t step, const std::string& text) {
  const std::string collection = options_.collection.empty() ? "" : " collection=" + options_.collection;
  std::fputs(fmt::format("[{}]{} {}\n", step, collection, text).c_str(), options_.out);
}

void LoggingWriter::write_scalars(std::int64_t step, const Scalars& scalars) {
  expect_open();
  detail::expect_step_and_tags(kLoggingWriter, step, scalars);
  Scalars sorted = scalars;
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::string> values;
  for (const auto& [tag, value] : sorted) {
    values.push_back(fmt::format("{}={:.6g}", tag, detail::without_nan_sign(value)));
  }
  line(step, listed(values));
}

void LoggingWriter::write_images(std::int64_t step, const Arrays& images) {
  expect_open();
  detail::expect_step_and_tags(kLoggingWriter, step, images);
  std::vector<std::string> shapes;
  for (const auto& [tag, image] : images) shapes.push_back(fmt::format("{}: {}", tag, to_string(image.shape())));
  line(step, fmt::format("Got images: {{{}}}.", listed(shapes)));
}

void LoggingWriter::write_histograms(std::int64_t step, const Arrays& arrays) {
  expect_open();
  detail::expect_step_and_tags(kLoggingWriter, step, arrays);
  for (const auto& [tag, array] : arrays) {
    line(step, fmt::format("Histogram for '{}' = {{{}}}", tag, text_of(detail::histogram_of(array))));
  }
}

void LoggingWriter::write_texts(std::int64_t step, const Texts& texts) {
  expect_open();
  detail::expect_step_and_tags(kLoggingWriter, step, texts);
  for (const auto& [tag, text] : texts) line(step, fmt::format("{}: {}", tag, text));
}

void LoggingWriter::write_hparams(const HParams& hparams) {
  expect_open();
  detail::expect_step_and_tags(kLoggingWriter, 0, hparams);
  std::vector<std::string> values;
  for (const auto& [name, value] : hparams) values.push_back(fmt::format("{}={}", name, detail::text_of(value)));
  const std::string collection = options_.collection.empty() ? "" : " collection=" + options_.collection;
  std::fputs(fmt::format("[Hyperparameters]{} {}\n", collection, listed(values)).c_str(), options_.out);
}

void LoggingWriter::flush() {
  expect_open();
  std::fflush(options_.out);
}
void LoggingWriter::close() {
  if (is_closed_) return;
  flush();
  is_closed_ = true;
}

}  // namespace giro
