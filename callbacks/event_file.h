#pragma once

#include <bit>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <giro/runtime/files/file_system.h>

namespace giro::detail {

inline void append_little_endian(std::string& out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i));
}

// A protobuf message in its wire format: fields in the order they were added.
class ProtoMessage {
 public:
  const std::string& bytes() const noexcept { return bytes_; }
  bool empty() const noexcept { return bytes_.empty(); }
  void clear() noexcept { bytes_.clear(); }

  ProtoMessage& add_integer(int field, std::int64_t value) {
    key(field, 0);
    varint(static_cast<std::uint64_t>(value));
    return *this;
  }
  ProtoMessage& add_double(int field, double value) {
    key(field, 1);
    append_little_endian(bytes_, std::bit_cast<std::uint64_t>(value), 8);
    return *this;
  }
  ProtoMessage& add_float(int field, float value) {
    key(field, 5);
    append_little_endian(bytes_, std::bit_cast<std::uint32_t>(value), 4);
    return *this;
  }
  // Bytes, or a text, which must be UTF-8.
  ProtoMessage& add_bytes(int field, std::string_view value) {
    key(field, 2);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  ProtoMessage& add_message(int field, const ProtoMessage& value) { return add_bytes(field, value.bytes_); }

 private:
  void key(int field, int wire_type) { varint(static_cast<std::uint64_t>(field) << 3 | wire_type); }
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

// Reads a message: calls f for each field, in order, with its number and its value, 0 unless that is an integer. Stops
// at anything that cannot be a field.
void read_fields(std::string_view message, const std::function<void(int field, std::int64_t integer)>& f);

// The CRC32C of `data`, masked as in TFRecords: rotated, plus a constant. So it may be part of data that is itself
// checksummed.
std::uint32_t masked_crc32c(std::string_view data);

// Appends a TFRecord: length, its checksum, the data, their checksum.
void append_tfrecord(std::string& out, std::string_view data);

// Removes the first record from `file` and returns its data; nullopt if `file` does not begin with a complete record
// with the right checksums.
std::optional<std::string_view> take_tfrecord(std::string_view& file);

// A file of TensorBoard events (TFRecords), in a directory that it locks against other writers. Its name sorts after
// the existing files', because TensorBoard reads them in that order. Records are buffered, and written when there are
// many or some time has passed. Dates are seconds since the Unix epoch.
class EventFile {
 public:
  // Creates and locks the directory; the first event creates the file. Errors: io; invalid_argument, naming the
  // process, if another writer has the lock.
  EventFile(std::string dir, std::shared_ptr<FileSystem> files, double flush_interval);

  // Removes the events of this step and later ones from the existing files. Later events go to another file.
  void remove_from(std::int64_t step);
  void add_summary(double date, std::int64_t step, const ProtoMessage& summary);
  // Makes readers drop what they have read of this step and later ones.
  void add_session_start(double date, std::int64_t step);
  void flush();
  // Flushes, and syncs the file to disk.
  void sync();

 private:
  void begin(double date);
  void add(double date, std::int64_t step, int field, const ProtoMessage& value);

  std::string dir_;
  std::shared_ptr<FileSystem> files_;
  double flush_interval_;
  std::unique_ptr<FileSystem::Lock> lock_;
  std::unique_ptr<FileSystem::Writer> writer_;  // null before the first event, and after a failed write
  std::int64_t number_ = 0;                     // in the name of the newest file
  std::string records_;                         // not written yet
  ProtoMessage event_;
  double flushed_date_ = 0;
};

}  // namespace giro::detail
