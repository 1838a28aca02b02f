#include "runtime/files/checkpoint_files.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include <giro/runtime/files/safetensors.h>

#include "runtime/checksum.h"
#include "runtime/files/shard_files.h"
#include "runtime/files/store_names.h"

namespace giro::detail {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 20;  // bytes; stays in a core's cache between checksum and write
constexpr std::uint64_t kPartBytes = std::uint64_t{1} << 20;

// Writes to another writer, in large pieces, and computes the size and the checksums, of the whole file and of parts
// that a reader can verify alone.
class ChecksumWriter final : public FileSystem::Writer {
 public:
  // A part has at least 1 MiB, and at least 1 / `parts_of_file` of the bytes before it, so that a manifest lists a few
  // hundred of them.
  ChecksumWriter(std::unique_ptr<FileSystem::Writer> writer, std::uint64_t parts_of_file)
      : writer_(std::move(writer)), parts_of_file_(std::max<std::uint64_t>(parts_of_file, 1)) {}

  void write(const void* data, std::size_t bytes) override {
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
  void sync() override {
    flush();
    writer_->sync();
  }
  void close() override {
    flush();
    writer_->close();
  }

  std::uint64_t bytes() const noexcept { return bytes_; }
  std::string digits() const { return checksum_.digits(); }
  // The parts, which cover all bytes; empty if there is only one.
  std::vector<Manifest::Part> parts() const {
    std::vector<Manifest::Part> all = parts_;
    if (part_bytes_ > 0) all.push_back({part_bytes_, part_.digits()});
    if (all.size() == 1) all.clear();
    return all;
  }

 private:
  void flush() {
    if (small_.empty()) return;
    pass_on(small_.data(), small_.size());
    small_.clear();
  }
  void pass_on(const char* data, std::size_t bytes) {
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

  std::unique_ptr<FileSystem::Writer> writer_;
  std::uint64_t parts_of_file_;
  std::string small_;  // small writes not passed on yet
  Checksum checksum_, part_;
  std::vector<Manifest::Part> parts_;  // the complete ones
  std::uint64_t bytes_ = 0, part_bytes_ = 0;
};

std::vector<Leaf> chosen(const std::vector<Leaf>& leaves, bool pieces) {
  std::vector<Leaf> result;
  std::copy_if(leaves.begin(), leaves.end(), std::back_inserter(result),
               [&](const Leaf& leaf) { return leaf.piece.has_value() == pieces; });
  return result;
}

Manifest::File write_file(FileSystem& files, const std::string& unit, std::string_view name,
                          const std::vector<Leaf>& leaves, const std::map<std::string, std::string>& metadata = {},
                          int shards = 1) {
  constexpr std::uint64_t kPartsOfFiles = 256;  // over all shards, because one manifest lists the parts of all
  ChecksumWriter writer(files.create(path_of(unit, name)), kPartsOfFiles / static_cast<std::uint64_t>(shards));
  write_safetensors(writer, leaves, metadata);
  writer.sync();
  writer.close();
  return {std::string(name), writer.bytes(), writer.digits(), writer.parts()};
}

}  // namespace

std::vector<Manifest::File> write_whole_leaves(FileSystem& files, const std::string& unit,
                                               const std::vector<Leaf>& leaves, const std::vector<Leaf>& arrays) {
  std::vector<Manifest::File> written{write_file(files, unit, kStateName, chosen(leaves, /*pieces=*/false))};
  const std::vector<Leaf> memory = chosen(arrays, /*pieces=*/false);
  if (!memory.empty()) written.push_back(write_file(files, unit, kMemoryName, memory));
  return written;
}

std::vector<Manifest::File> write_shard(FileSystem& files, const std::string& unit, const Shard& shard,
                                        const std::vector<Leaf>& leaves, const std::vector<Leaf>& arrays) {
  const auto write = [&](std::string_view name, const std::vector<Leaf>& pieces) {
    return write_file(files, unit, shard_name(name, shard), pieces, piece_metadata(pieces), shard.count);
  };
  std::vector<Manifest::File> written{write(kStateName, chosen(leaves, /*pieces=*/true))};
  const std::vector<Leaf> memory = chosen(arrays, /*pieces=*/true);
  if (!memory.empty()) written.push_back(write(kMemoryName, memory));
  return written;
}

}  // namespace giro::detail
