#include "callbacks/internal/line_writer.h"

#include <fmt/format.h>

#include <giro/runtime/error.h>
#include <giro/runtime/files/archive.h>

namespace giro::detail {

void LineWriter::begin(const Elapsed& elapsed) {
  if (!file_.appends() && (file_.is_open() || file_.reopen())) return;
  reset();
  records_ = 0;
  file_.open([&](const std::string& line) {
    const std::int64_t step = read(line);
    if (step < 0) return true;
    const bool stays = !file_.appends() || (step < elapsed.steps && records_ < resumed_.value_or(records_ + 1));
    if (stays) ++records_;
    return stays;
  });
  resumed_.reset();
}

void LineWriter::write(const Record& record) {
  if (!file_.is_open()) begin(record.elapsed);
  const auto& scalars = std::get<Record::Scalars>(record.values);
  if (scalars.empty()) return;
  append(record.elapsed, scalars);
  ++records_;
  file_.end_line(record.elapsed.date);
}

void LineWriter::persist(Archive& archive) {
  archive("records", records_);
  if (archive.is_reading()) {
    file_.set_appends();
    resumed_ = records_;
  }
  if (!archive.is_reading() && file_.is_open()) file_.sync();
}

void LineWriter::reject(const std::string& line, const std::string& expected) const {
  throw Error(ErrorCode::corrupt_data, fmt::format("{}: '{}' has the line {:?}, expected {}", name_, file_.path(),
                                                   line.substr(0, 60), expected));
}

}  // namespace giro::detail
