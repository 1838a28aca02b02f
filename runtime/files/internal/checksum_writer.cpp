#include "runtime/files/internal/checksum_writer.h"

#include <algorithm>
#include <utility>

namespace giro::detail {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 20;  // bytes; stays in a core's cache between checksum and write
constexpr std::uint64_t kPartBytes = std::uint64_t{1} << 20;

}  // namespace

ChecksumWriter::ChecksumWriter(std::unique_ptr<FileSystem::Writer> writer, std::uint64_t parts_of_file)
    : writer_(std::move(writer)), parts_of_file_(std::max<std::uint64_t>(parts_of_file, 1)) {}

void ChecksumWriter::write(const void* data, std::size_t bytes) {
  if (small_.size() + bytes < kPiece) {
    small_.append(static_cast<const char*>(data), bytes);
    return;
  }
  flush();
  for (const char *next = static_cast<const char*>(data), *end = next + bytes; next != end;) {
    const std::size_t piece = std::min(kPiece, static_cast<std::size_t>(end - next));
    pass_on(next, piece);
    next += piece;
  }
}

void ChecksumWriter::pass_on(const char* data, std::size_t bytes) {
  writer_->write(data, bytes);
  checksum_.add(data, bytes);
  while (bytes > 0) {
    const std::uint64_t full = std::max(kPartBytes, bytes_ / parts_of_file_);
    const std::size_t taken = std::min(bytes, static_cast<std::size_t>(full - part_bytes_));
    part_.add(data, taken);
    part_bytes_ += taken;
    bytes_ += taken;
    data += taken;
    bytes -= taken;
    if (part_bytes_ < full) continue;
    parts_.push_back({std::exchange(part_bytes_, 0), part_.digits()});
    part_ = Checksum();
  }
}

std::vector<Manifest::Part> ChecksumWriter::parts() const {
  std::vector<Manifest::Part> all = parts_;
  if (part_bytes_ > 0) all.push_back({part_bytes_, part_.digits()});
  if (all.size() == 1) all.clear();
  return all;
}

void ChecksumWriter::flush() {
  if (small_.empty()) return;
  pass_on(small_.data(), small_.size());
  small_.clear();
}

void ChecksumWriter::sync() {
  flush();
  writer_->sync();
}

void ChecksumWriter::close() {
  flush();
  writer_->close();
}

}  // namespace giro::detail
