#include <giro/callbacks/jsonl_logger.h>

#include <fmt/format.h>

#include <charconv>
#include <utility>

#include "callbacks/line_writer.h"
#include "loop/log/record_text.h"
#include "runtime/text.h"

namespace giro {
namespace {

using detail::append_json, detail::kJsonlBegin;

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

JsonlLogger::JsonlLogger(const std::string& path, const LoggerOptions& options)
    : MetricLogger(std::make_shared<JsonlLines>(path, options)) {}

}  // namespace giro
