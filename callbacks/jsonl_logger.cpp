#include <giro/callbacks/jsonl_logger.h>

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include <giro/runtime/error.h>

#include "callbacks/internal/log_file.h"
#include "loop/log/internal/record_text.h"

namespace giro {
namespace {

using detail::append_json, detail::json_string;

constexpr std::string_view kBegin = R"({"elapsed":{"steps":)";

}  // namespace

class JsonlLogger::File {
 public:
  File(const std::string& path, const LoggerOptions& options) : file_(path, options) {}

  // Before the step number `first` is logged, when a loop begins.
  void start(std::int64_t first) {
    if (file_.is_open() && !file_.appends()) return;
    file_.open([&](const std::string& line) {
      std::int64_t step = -1;
      if (line.starts_with(kBegin)) std::from_chars(line.data() + kBegin.size(), line.data() + line.size(), step);
      if (step < 0) {
        throw Error(ErrorCode::corrupt_data, fmt::format("jsonl_logger: '{}' has the line {:?}, expected {}N,...",
                                                         file_.path(), line.substr(0, 60), kBegin));
      }
      return step < first;
    });
  }

  void write(const Elapsed& elapsed, const Logs& logs) {
    if (!file_.is_open()) start(elapsed.steps);
    // Entry by entry within its collection, the collections in the order of first mention.
    collections_.clear();
    for (std::size_t i = 0; i < logs.entries().size(); ++i) {
      const Logs::Entry entry = logs.entries()[i];
      if (!entry.value.is_scalar() && entry.collection == "outputs") continue;
      auto found = collections_.begin();
      while (found != collections_.end() && found->first != entry.collection) ++found;
      if (found == collections_.end()) found = collections_.insert(found, {entry.collection, {}});
      std::string& fields = found->second;
      fields.append(fields.empty() ? "{" : ",").append(json_string(entry.name)).append(1, ':');
      append_json(fields, entry.value.value());
    }
    if (collections_.empty()) return;
    std::string& text = file_.text;
    text += kBegin;
    fmt::format_to(std::back_inserter(text), R"({},"samples":{})", elapsed.steps, elapsed.samples);
    for (const auto& [name, value] : {std::pair("date", elapsed.date), std::pair("date_start", elapsed.date_start),
                                      std::pair("time", elapsed.time())}) {
      fmt::format_to(std::back_inserter(text), R"(,"{}":)", name);
      append_json(text, value);
    }
    text += '}';
    for (const auto& [name, fields] : collections_) {
      text.append(1, ',').append(json_string(name)).append(1, ':').append(fields).append(1, '}');
    }
    text += '}';
    file_.end_line(elapsed.date);
  }

  void sync() { file_.sync(); }

 private:
  detail::LogFile file_;
  std::vector<std::pair<std::string, std::string>> collections_;  // and their fields
};

JsonlLogger::JsonlLogger(const std::string& path, const LoggerOptions& options)
    : file_(std::make_shared<File>(path, options)) {}

void JsonlLogger::on_start(const Elapsed& elapsed) { file_->start(elapsed.steps); }
void JsonlLogger::operator()(const Elapsed& elapsed, const Logs& logs) { file_->write(elapsed, logs); }
void JsonlLogger::on_end() { file_->sync(); }

}  // namespace giro
