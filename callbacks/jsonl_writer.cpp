#include <giro/callbacks/jsonl_writer.h>

#include <fmt/format.h>

#include <string_view>
#include <variant>
#include <vector>

#include "callbacks/histogram_buckets.h"
#include "callbacks/line_writer.h"
#include "callbacks/writer_checks.h"
#include "loop/log/record_text.h"
#include "runtime/text.h"

namespace giro {
namespace {

using detail::append_json;

std::string json_of(double value) {
  std::string text;
  append_json(text, value);
  return text;
}

std::string json_of(const HParam& hparam) {
  if (const bool* flag = std::get_if<bool>(&hparam.value)) return *flag ? "true" : "false";
  if (const double* number = std::get_if<double>(&hparam.value)) return json_of(*number);
  return json_string(std::get<std::string>(hparam.value));
}

std::string json_of_image(const HostArray& image) {
  return fmt::format(R"({{"dtype":"{}","shape":[{}]}})", name_of(image.dtype()),
                     fmt::join(image.shape().begin(), image.shape().end(), ","));
}

std::string json_of_histogram(const HostArray& array) {
  const detail::Histogram histogram = detail::histogram_of(array);
  std::vector<std::string> edges;
  for (const double edge : histogram.edges) edges.push_back(json_of(edge));
  return fmt::format(R"({{"edges":[{}],"counts":[{}]}})", fmt::join(edges, ","), fmt::join(histogram.counts, ","));
}

// "kind":{"tag":value,...}
template <class T, class F>
std::string field_of(std::string_view kind, const MetricRecord::Tagged<T>& tagged, F&& json) {
  std::string fields;
  for (const auto& [tag, value] : tagged) {
    fields += fmt::format("{}{}:{}", fields.empty() ? "" : ",", json_string(tag.path()), json(value));
  }
  return fmt::format(R"("{}":{{{}}})", kind, fields);
}

std::string field_of(const MetricRecord::Scalars& scalars) {
  return field_of("scalars", scalars, [](double value) { return json_of(value); });
}
std::string field_of(const MetricRecord::Images& images) { return field_of("images", images, json_of_image); }
std::string field_of(const MetricRecord::Histograms& arrays) {
  return field_of("histograms", arrays, json_of_histogram);
}
std::string field_of(const MetricRecord::Texts& texts) {
  return field_of("texts", texts, [](const std::string& text) { return json_string(text); });
}
std::string field_of(const MetricRecord::HParams& hparams) {
  return field_of("hparams", hparams, [](const HParam& hparam) { return json_of(hparam); });
}

}  // namespace

class JsonlWriter::Lines final : public detail::LineWriter {
 public:
  Lines(const std::string& path, const LoggerOptions& options) : LineWriter("JsonlWriter", path, options) {}

 private:
  std::int64_t read(const std::string&) override { return -1; }
  bool append(std::string& text, const MetricRecord& record) override {
    const bool has_step = !std::holds_alternative<MetricRecord::HParams>(record.values);
    text += fmt::format("{{{}{}}}", has_step ? fmt::format(R"("step":{},)", record.elapsed.steps) : "",
                        std::visit([](const auto& values) { return field_of(values); }, record.values));
    return true;
  }
};

JsonlWriter::JsonlWriter(const std::string& path, const LoggerOptions& options)
    : lines_(std::make_shared<Lines>(path, options)), claim_(lines_->claim(lines_)) {
  lines_->begin({});
}

void JsonlWriter::write(const MetricRecord& record) {
  detail::expect_writable("JsonlWriter", claim_ != nullptr, record);
  lines_->write(record);
}

void JsonlWriter::flush() {
  detail::expect_open("JsonlWriter", claim_ != nullptr);
  lines_->write_lines();
}
void JsonlWriter::close() {
  if (claim_) lines_->flush();
  claim_.reset();
}

}  // namespace giro
