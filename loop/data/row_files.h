#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <giro/runtime/files/file_system.h>

namespace giro::data {

// The rows of several files in sequence, for a RowSource. A file is opened when one of its rows is read, and at most
// kOpen files stay open. Rows are read into the batch by pread rather than mmap, so that a file that has become shorter
// is an error instead of a SIGBUS.
class RowFiles {
 public:
  static constexpr std::size_t kOpen = 64;

  // Rows of `row_bytes` bytes, each `stride_bytes` after the one before.
  RowFiles(std::shared_ptr<FileSystem> files, std::size_t row_bytes, std::uint64_t stride_bytes)
      : files_(std::move(files)), row_bytes_(row_bytes), stride_bytes_(stride_bytes) {}

  // Appends `rows` rows of a file, the first at byte `first`. Error(invalid_argument) if the total exceeds an i64.
  void add(std::string path, std::uint64_t first, std::int64_t rows);
  std::int64_t num_rows() const { return parts_.empty() ? 0 : parts_.back().end_row; }

  // Reads the row into `to` and returns where it lies. Several threads may call it at once. Errors: not_found, io,
  // corrupt_data for a file that has become shorter.
  struct Location {
    const std::string& path;
    std::uint64_t byte;
  };
  Location read(std::int64_t row, void* to) const;

 private:
  struct Part {
    std::string path;
    std::uint64_t first;
    std::int64_t end_row;  // one past its last row, counted over all files
  };
  using Reader = std::shared_ptr<const FileSystem::Reader>;
  Reader reader_of(std::size_t part) const;

  std::shared_ptr<FileSystem> files_;
  std::size_t row_bytes_;
  std::uint64_t stride_bytes_;
  std::vector<Part> parts_;
  mutable std::mutex mutex_;
  mutable std::array<std::pair<std::size_t, Reader>, kOpen> open_;  // part p is open, if at all, at p % kOpen
};

}  // namespace giro::data
