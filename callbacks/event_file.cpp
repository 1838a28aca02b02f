#include "callbacks/event_file.h"

#include <fmt/format.h>
#include <isa-l/crc.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <utility>
#include <vector>

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
  read_fields(event, [&](int field, std::int64_t integer) {
    if (field == kStep) its_step = integer;
    has_step |= field == kSummary || field == kSessionLog;
  });
  return has_step && its_step >= step;
}

std::uint64_t read_little_endian(std::string_view data, std::size_t bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes; i-- > 0;) value = value << 8 | static_cast<unsigned char>(data[i]);
  return value;
}

// Removes a number of 7 bits per byte from the text; nullopt if it does not begin with a complete one.
std::optional<std::uint64_t> take_varint(std::string_view& text) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64 && !text.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(text.front());
    text.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

}  // namespace

void read_fields(std::string_view message, const std::function<void(int field, std::int64_t integer)>& f) {
  constexpr std::uint64_t kInteger = 0, kEightBytes = 1, kSizedBytes = 2, kFourBytes = 5;  // wire types
  while (const std::optional<std::uint64_t> key = take_varint(message)) {
    const auto field = static_cast<int>(*key >> 3);
    const std::uint64_t type = *key & 7;
    const bool has_number = type == kInteger || type == kSizedBytes;
    const std::optional<std::uint64_t> number = has_number ? take_varint(message) : 0;
    const bool is_known = has_number || type == kEightBytes || type == kFourBytes;
    if (field == 0 || !number || !is_known) return;
    const std::uint64_t bytes = type == kEightBytes ? 8 : type == kFourBytes ? 4 : type == kSizedBytes ? *number : 0;
    if (bytes > message.size()) return;
    message.remove_prefix(bytes);
    f(field, type == kInteger ? static_cast<std::int64_t>(*number) : 0);
  }
}

std::uint32_t masked_crc32c(std::string_view data) {
  constexpr std::size_t kMax = std::size_t{1} << 30;  // the library counts in int
  std::uint32_t crc = ~std::uint32_t{0};
  while (!data.empty()) {
    const std::string_view piece = data.substr(0, kMax);
    // The library only reads, but its signature lacks const.
    auto* bytes = reinterpret_cast<unsigned char*>(const_cast<char*>(piece.data()));
    crc = ::crc32_iscsi(bytes, static_cast<int>(piece.size()), crc);
    data.remove_prefix(piece.size());
  }
  return std::rotr(~crc, 15) + 0xA282EAD8u;
}

void append_tfrecord(std::string& out, std::string_view data) {
  const std::size_t begin = out.size();
  append_little_endian(out, data.size(), 8);
  append_little_endian(out, masked_crc32c(std::string_view(out).substr(begin, 8)), 4);
  out += data;
  append_little_endian(out, masked_crc32c(data), 4);
}

std::optional<std::string_view> take_tfrecord(std::string_view& file) {
  constexpr std::size_t kHeader = 12, kFooter = 4;
  if (file.size() < kHeader + kFooter) return {};
  const std::uint64_t size = read_little_endian(file, 8);
  if (read_little_endian(file.substr(8), 4) != masked_crc32c(file.substr(0, 8))) return {};
  if (size > file.size() - kHeader - kFooter) return {};
  const std::string_view data = file.substr(kHeader, size);
  if (read_little_endian(file.substr(kHeader + size), 4) != masked_crc32c(data)) return {};
  file.remove_prefix(kHeader + size + kFooter);
  return data;
}

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
