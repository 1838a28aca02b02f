#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <giro/runtime/file_system.h>

#include "callbacks/internal/protobuf.h"

namespace giro::detail {

// A file of TensorBoard's events, TFRecords, in a directory that nobody else writes events to meanwhile. Its name comes
// after those of the files that are there, which is the order in which TensorBoard reads them. Records are gathered,
// and written when there are many or some time has passed. Dates are seconds since the Unix epoch.
class EventFile {
 public:
  // Makes the directory and locks it; the first event begins the file. Errors: io; invalid_argument, naming the
  // process, if the directory is being written.
  EventFile(std::string dir, std::shared_ptr<FileSystem> files, double flush_interval);

  // Takes what is of this step and later ones out of the files that are there; what comes then goes to another.
  void remove_from(std::int64_t step);
  void add_summary(double date, std::int64_t step, const ProtoMessage& summary);
  // Who has read what was written of this step and later ones is to drop it.
  void add_session_start(double date, std::int64_t step);
  void flush();
  // Also across a power loss.
  void sync();

 private:
  void begin(double date);
  void add(double date, std::int64_t step, int field, const ProtoMessage& value);

  std::string dir_;
  std::shared_ptr<FileSystem> files_;
  double flush_interval_;
  std::unique_ptr<FileSystem::Lock> lock_;
  std::unique_ptr<FileSystem::Writer> writer_;  // null before the first event, and where writing has failed
  std::int64_t number_ = 0;                     // in the name of the newest file
  std::string records_;                         // that were not written yet
  ProtoMessage event_;
  double flushed_date_ = 0;
};

}  // namespace giro::detail
