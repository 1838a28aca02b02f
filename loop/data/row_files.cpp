#include "loop/data/row_files.h"

#include <algorithm>
#include <limits>

#include "runtime/throw_error.h"

namespace giro::data {

void RowFiles::add(std::string path, std::uint64_t first, std::int64_t rows) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  if (rows > kMax - num_rows()) {
    throw_invalid("{}: {} rows after {} in the files before it, expected at most {}", path, rows, num_rows(),
                  kMax - num_rows());
  }
  if (rows > 0) parts_.push_back({std::move(path), first, num_rows() + rows});
}

RowFiles::Location RowFiles::read(std::int64_t row, void* to) const {
  const auto part = std::upper_bound(parts_.begin(), parts_.end(), row,
                                     [](std::int64_t number, const Part& p) { return number < p.end_row; });
  const std::int64_t before = part == parts_.begin() ? 0 : std::prev(part)->end_row;
  const Location location{part->path, part->first + static_cast<std::uint64_t>(row - before) * stride_bytes_};
  const Reader reader = reader_of(static_cast<std::size_t>(part - parts_.begin()));
  const std::size_t got = reader->read_at(location.byte, to, row_bytes_);
  if (got < row_bytes_) {
    throw_error(ErrorCode::corrupt_data, "{}: it ends at byte {}, but was longer when the dataset was created",
                location.path, location.byte + got);
  }
  return location;
}

// Opens outside the lock, so that no thread waits for a slow file that it does not need.
RowFiles::Reader RowFiles::reader_of(std::size_t part) const {
  auto& [open_part, open] = open_[part % kOpen];
  {
    const std::lock_guard lock(mutex_);
    if (open && open_part == part) return open;
  }
  Reader reader = files_->open(parts_[part].path);
  const std::lock_guard lock(mutex_);
  open_part = part;
  open = reader;
  return reader;
}

}  // namespace giro::data
