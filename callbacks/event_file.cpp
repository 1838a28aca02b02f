#include "callbacks/event_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "callbacks/tfrecord.h"
#include "runtime/files/file_operations.h"
#include "runtime/files/store_names.h"

namespace giro::detail {
namespace {

constexpr std::size_t kMaxGathered = std::size_t{1} << 16;
constexpr std::string_view kPrefix = "events.out.tfevents.";

// Fields of tensorflow.Event and tensorflow.SessionLog.
constexpr int kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
constexpr int kStatus = 1, kStart = 1;

// The number in the name of an event file, seconds since the Unix epoch; 0 for another file.
std::int64_t timestamp_of(const std::string& name) {
  std::int64_t number = 0;
  if (name.starts_with(kPrefix)) {
    std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), number);
  }
  return number;
}

// Whether an event has a step, and it is `step` or later.
bool is_of_step_or_later(std::string_view event, std::int64_t step) {
  std::int64_t its_step = 0;
  bool has_step = false;
  ProtoFields fields(event);
  while (const int field = fields.next()) {
    if (field == kStep) its_step = fields.integer();
    has_step |= field == kSummary || field == kSessionLog;
  }
  return has_step && its_step >= step;
}

}  // namespace

EventFile::EventFile(std::string dir, std::shared_ptr<FileSystem> files, double flush_interval)
    : dir_(std::move(dir)), files_(std::move(files)), flush_interval_(flush_interval) {
  files_->create_directories(dir_);
  lock_ = lock_for_writing(*files_, path_of(dir_, ".tensorboard.lock"), dir_);
  remove_temporaries(*files_, path_of(dir_, kPrefix));
  for (const std::string& name : files_->list(dir_)) number_ = std::max(number_, timestamp_of(name));
}

void EventFile::begin(double date) {
  number_ = std::max(number_ + 1, static_cast<std::int64_t>(date));
  const std::string name = fmt::format("{}{:010}.{}.{}", kPrefix, number_, host_name(), ::getpid());
  writer_ = files_->create(path_of(dir_, name));
  event_.clear();
  event_.add_double(kWallTime, date).add_bytes(kFileVersion, "brain.Event:2");
  append_tfrecord(records_, event_.bytes());
}

void EventFile::remove_from(std::int64_t step) {
  flush();
  writer_.reset();
  for (const std::string& name : files_->list(dir_)) {
    if (timestamp_of(name) == 0) continue;
    const std::string path = path_of(dir_, name);
    const std::vector<char> content = files_->read(path);
    std::string_view rest(content.data(), content.size());
    std::string kept;
    bool all = true;
    while (const std::optional<std::string_view> record = take_tfrecord(rest)) {
      const bool stays = !is_of_step_or_later(*record, step);
      if (stays) append_tfrecord(kept, *record);
      all &= stays;
    }
    // Nothing after an incomplete record can be read, so it need not be kept.
    if (!all) replace_file(*files_, path, kept);
  }
}

void EventFile::add_summary(double date, std::int64_t step, const ProtoMessage& summary) {
  add(date, step, kSummary, summary);
}

void EventFile::add_session_start(double date, std::int64_t step) {
  add(date, step, kSessionLog, ProtoMessage().add_integer(kStatus, kStart));
}

void EventFile::add(double date, std::int64_t step, int field, const ProtoMessage& value) {
  if (!writer_) begin(date);
  event_.clear();
  event_.add_double(kWallTime, date).add_integer(kStep, step).add_message(field, value);
  append_tfrecord(records_, event_.bytes());
  // A clock that was set back must not delay the records.
  if (records_.size() < kMaxGathered && date >= flushed_date_ && date < flushed_date_ + flush_interval_) return;
  flush();
  flushed_date_ = date;
}

void EventFile::flush() {
  if (records_.empty() || !writer_) return;
  // Nothing after an incomplete record can be read: if this fails, later records go to another file.
  std::unique_ptr<FileSystem::Writer> writer = std::move(writer_);
  const std::string records = std::exchange(records_, {});
  writer->write(records.data(), records.size());
  writer_ = std::move(writer);
}

void EventFile::sync() {
  flush();
  if (!writer_) return;
  writer_->sync();
  files_->sync_directory(dir_);
}

}  // namespace giro::detail
