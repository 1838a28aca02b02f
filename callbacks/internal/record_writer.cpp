#include "callbacks/internal/record_writer.h"

#include <fmt/format.h>

#include <giro/loop/log/outputs.h>
#include <giro/runtime/error.h>
#include <giro/runtime/files/archive.h>

namespace giro::detail {

void RecordWriter::start(std::int64_t first) {
  if (!file_.appends() && (file_.is_open() || file_.reopen())) return;
  begin();
  records_ = 0;
  file_.open([&](const std::string& line) {
    const std::int64_t step = read(line);
    if (step < 0) return true;
    const bool stays = !file_.appends() || (step < first && records_ < resumed_.value_or(records_ + 1));
    if (stays) ++records_;
    return stays;
  });
  resumed_.reset();
}

void RecordWriter::write(const Elapsed& elapsed, const Logs& logs) {
  if (!file_.is_open()) start(elapsed.steps);
  numbers_.clear();
  for (std::size_t i = 0; i < logs.entries().size(); ++i) {
    const Logs::Entry entry = logs.entries()[i];
    if (!is_array(entry)) numbers_.push_back(entry);
  }
  if (numbers_.empty()) return;
  append(elapsed, numbers_);
  ++records_;
  file_.end_line(elapsed.date);
}

void RecordWriter::persist(Archive& archive) {
  archive("records", records_);
  if (archive.is_reading()) {
    file_.set_appends();
    resumed_ = records_;
  }
  if (!archive.is_reading() && file_.is_open()) file_.sync();
}

void RecordWriter::reject(const std::string& line, const std::string& expected) const {
  throw Error(ErrorCode::corrupt_data, fmt::format("{}: '{}' has the line {:?}, expected {}", name_, file_.path(),
                                                   line.substr(0, 60), expected));
}

}  // namespace giro::detail
