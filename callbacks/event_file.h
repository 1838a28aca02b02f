#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <giro/runtime/files/file_system.h>

#include "callbacks/protobuf.h"

namespace giro::detail {

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
