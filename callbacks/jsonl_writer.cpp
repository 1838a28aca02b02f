#include <giro/callbacks/jsonl_writer.h>

#include <fmt/format.h>

#include <charconv>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <giro/callbacks/jsonl_logger.h>

#include "callbacks/histogram_buckets.h"
#include "callbacks/line_writer.h"
#include "loop/log/record_text.h"
#include "runtime/text.h"

namespace giro {
namespace {

using detail::append_json, detail::kJsonlBegin;

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

std::string json_of(const std::string& text) { return json_string(text); }

// A value of a MetricRecord's `Values`: of images only what they are, of histograms their buckets.
template <class Values, class T>
std::string json_in(const T& value) {
  if constexpr (std::is_same_v<Values, MetricRecord::Images>) {
    return fmt::format(R"({{"dtype":"{}","shape":[{}]}})", name_of(value.dtype()),
                       fmt::join(value.shape().begin(), value.shape().end(), ","));
  } else if constexpr (std::is_same_v<Values, MetricRecord::Histograms>) {
    const detail::Histogram histogram = detail::histogram_of(value);
    std::vector<std::string> edges;
    for (const double edge : histogram.edges) edges.push_back(json_of(edge));
    return fmt::format(R"({{"edges":[{}],"counts":[{}]}})", fmt::join(edges, ","), fmt::join(histogram.counts, ","));
  } else {
    return json_of(value);
  }
}

class JsonlLines final : public detail::LineWriter {
 public:
  JsonlLines(const std::string& path, const LoggerOptions& options) : LineWriter("jsonl_logger", path, options) {}

 private:
  std::int64_t read(const std::string& line) override {
    std::int64_t step = -1;
    if (line.starts_with(kJsonlBegin)) {
      std::from_chars(line.data() + kJsonlBegin.size(), line.data() + line.size(), step);
    }
    if (step < 0) reject(line, fmt::format("{}N,...", kJsonlBegin));
    return step;
  }

  bool append(std::string& text, const MetricRecord& record) override {
    const auto& scalars = std::get<MetricRecord::Scalars>(record.values);
    if (scalars.empty()) return false;
    // Grouped by collection, in the order of first appearance.
    collections_.clear();
    for (const auto& [tag, value] : scalars) {
      auto found = collections_.begin();
      while (found != collections_.end() && found->first != tag.collection()) ++found;
      if (found == collections_.end()) found = collections_.emplace(found, tag.collection(), "");
      std::string& fields = found->second;
      fields.append(fields.empty() ? "{" : ",").append(json_string(std::string(tag.name()))).append(1, ':');
      append_json(fields, value);
    }
    append_json(text, record.elapsed);
    for (const auto& [name, fields] : collections_) {
      text.append(1, ',').append(json_string(name)).append(1, ':').append(fields).append(1, '}');
    }
    text += '}';
    return true;
  }

  std::vector<std::pair<std::string, std::string>> collections_;  // names and fields
};

}  // namespace

class JsonlWriter::Lines final : public detail::LineWriter {
 public:
  Lines(const std::string& path, const LoggerOptions& options) : LineWriter("JsonlWriter", path, options) {}

 private:
  std::int64_t read(const std::string&) override { return -1; }
  bool append(std::string& text, const MetricRecord& record) override {
    static constexpr std::string_view kKinds[] = {"scalars", "images", "histograms", "texts", "hparams"};
    std::string fields;  // "tag":value,...
    const auto add = [&]<class Values>(const Values& values) {
      for (const auto& [tag, value] : values) {
        fields += fmt::format("{}{}:{}", fields.empty() ? "" : ",", json_string(tag.path()), json_in<Values>(value));
      }
    };
    std::visit(add, record.values);
    const bool has_step = !std::holds_alternative<MetricRecord::HParams>(record.values);
    text += fmt::format(R"({{{}"{}":{{{}}}}})", has_step ? fmt::format(R"("step":{},)", record.elapsed.steps) : "",
                        kKinds[record.values.index()], fields);
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

JsonlLogger::JsonlLogger(const std::string& path, const LoggerOptions& options)
    : MetricLogger(std::make_shared<JsonlLines>(path, options)) {}

}  // namespace giro
