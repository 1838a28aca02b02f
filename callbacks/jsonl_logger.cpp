#include <giro/callbacks/jsonl_logger.h>

#include <fmt/format.h>

#include <charconv>
#include <string_view>
#include <utility>

#include "callbacks/internal/line_writer.h"
#include "loop/log/internal/record_text.h"

namespace giro {
namespace {

using detail::append_json, detail::json_string, detail::kJsonlBegin;

class JsonlLines final : public detail::LineWriter {
 public:
  JsonlLines(const std::string& path, const LoggerOptions& options)
      : LineWriter("jsonl_logger", path, options,
                   [](std::string_view text, std::size_t begin) { return text.find('\n', begin); }) {}

 private:
  std::int64_t read(const std::string& line) override {
    std::int64_t step = -1;
    if (line.starts_with(kJsonlBegin)) {
      std::from_chars(line.data() + kJsonlBegin.size(), line.data() + line.size(), step);
    }
    if (step < 0) reject(line, fmt::format("{}N,...", kJsonlBegin));
    return step;
  }

  void append(const Elapsed& elapsed, const Record::Scalars& scalars) override {
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
    std::string& text = file().text;
    append_json(text, elapsed);
    for (const auto& [name, fields] : collections_) {
      text.append(1, ',').append(json_string(name)).append(1, ':').append(fields).append(1, '}');
    }
    text += '}';
  }

  std::vector<std::pair<std::string, std::string>> collections_;  // names and fields
};

}  // namespace

JsonlLogger::JsonlLogger(const std::string& path, const LoggerOptions& options)
    : FileLogger(std::make_shared<JsonlLines>(path, options)) {}

}  // namespace giro
