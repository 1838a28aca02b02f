#include "runtime/internal/checksum.h"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <utility>

namespace giro::detail {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 20;  // bytes; stays in a core's cache between checksum and write

}  // namespace

struct Checksum::State {
  XXH3_state_t hash;
};

Checksum::Checksum() : state_(std::make_unique<State>()) { XXH3_64bits_reset(&state_->hash); }
Checksum::Checksum(Checksum&&) noexcept = default;
Checksum& Checksum::operator=(Checksum&&) noexcept = default;
Checksum::~Checksum() = default;

void Checksum::add(const void* data, std::size_t bytes) { XXH3_64bits_update(&state_->hash, data, bytes); }
std::string Checksum::digits() const { return fmt::format("{:016x}", XXH3_64bits_digest(&state_->hash)); }

ChecksumWriter::ChecksumWriter(std::unique_ptr<FileSystem::Writer> writer) : writer_(std::move(writer)) {}

void ChecksumWriter::write(const void* data, std::size_t bytes) {
  if (small_.size() + bytes < kPiece) {
    small_.append(static_cast<const char*>(data), bytes);
    return;
  }
  flush();
  for (const char *next = static_cast<const char*>(data), *end = next + bytes; next != end;) {
    const std::size_t piece = std::min(kPiece, static_cast<std::size_t>(end - next));
    checksum_.add(next, piece);
    writer_->write(next, piece);
    bytes_ += piece;
    next += piece;
  }
}

void ChecksumWriter::flush() {
  if (small_.empty()) return;
  checksum_.add(small_.data(), small_.size());
  writer_->write(small_.data(), small_.size());
  bytes_ += small_.size();
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
