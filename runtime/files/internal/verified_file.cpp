#include "runtime/files/internal/verified_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "runtime/files/internal/store_names.h"
#include "runtime/internal/throw_error.h"

namespace giro::detail {

VerifiedFile::VerifiedFile(FileSystem& files, const std::string& unit, const Manifest::File& file)
    : path_(path_of(unit, file.name)), bytes_(file.bytes) {
  const FileSystem::Status status = files.status(path_);
  if (status.kind == FileSystem::Kind::none) {
    throw_error(ErrorCode::not_found, "checkpoint '{}' has no file '{}'", unit, file.name);
  }
  expect(status.kind == FileSystem::Kind::file, "it is not a file");
  expect(status.bytes == bytes_, fmt::format("it has {} bytes, expected {}", status.bytes, bytes_));
  std::uint64_t begin = 0;
  for (const Manifest::Part& part : file.parts) {
    expect(part.bytes <= bytes_ - begin, fmt::format("its parts have more than its {} bytes", bytes_));
    parts_.push_back({begin, begin + part.bytes, part.xxh3});
    begin += part.bytes;
  }
  if (parts_.empty()) {
    parts_.push_back({0, bytes_, file.xxh3});
  } else {
    expect(begin == bytes_, fmt::format("its parts have {} bytes, expected {}", begin, bytes_));
  }
  reader_ = files.open(path_);
}

void VerifiedFile::read(std::uint64_t begin, std::size_t size, void* data) {
  const std::uint64_t end = begin + size;
  auto part = std::upper_bound(parts_.begin(), parts_.end(), begin,
                               [](std::uint64_t at, const Part& candidate) { return at < candidate.end; });
  for (; size > 0 && part != parts_.end() && part->begin < end; ++part) {
    const std::uint64_t first = std::max(begin, part->begin), last = std::min(end, part->end);
    char* const target = static_cast<char*>(data) + (first - begin);
    if (part->is_verified) {
      fetch(first, last, target, nullptr);
      continue;
    }
    Checksum checksum;
    fetch(part->begin, first, nullptr, &checksum);
    fetch(first, last, target, &checksum);
    fetch(last, part->end, nullptr, &checksum);
    const std::string found = checksum.digits();
    expect(found == part->xxh3, parts_.size() == 1
                                    ? fmt::format("its checksum is {}, expected {}", found, part->xxh3)
                                    : fmt::format("the checksum of its bytes {} to {} is {}, expected {}", part->begin,
                                                  part->end, found, part->xxh3));
    part->is_verified = true;
  }
}

void VerifiedFile::expect(bool holds, const std::string& what) const {
  if (!holds) throw_error(ErrorCode::corrupt_data, "checkpoint file '{}': {}", path_, what);
}

void VerifiedFile::fetch(std::uint64_t begin, std::uint64_t end, char* data, Checksum* checksum) {
  constexpr std::uint64_t kPiece = std::uint64_t{1} << 20;  // bytes; stays in a core's cache
  while (begin < end) {
    const auto piece = static_cast<std::size_t>(std::min(kPiece, end - begin));
    if (data == nullptr) {
      read_ahead_.resize(piece);
      read_ahead_begin_ = begin;
    } else if (checksum == nullptr && begin >= read_ahead_begin_ &&
               begin + piece <= read_ahead_begin_ + read_ahead_.size()) {
      std::memcpy(data, read_ahead_.data() + (begin - read_ahead_begin_), piece);
      data += piece;
      begin += piece;
      continue;
    }
    char* const target = data != nullptr ? data : read_ahead_.data();
    const std::size_t got = reader_->read_at(begin, target, piece);
    expect(got == piece, fmt::format("it has {} bytes, expected {}", begin + got, bytes_));
    if (checksum != nullptr) checksum->add(target, piece);
    if (data != nullptr) data += piece;
    begin += piece;
  }
}

}  // namespace giro::detail
