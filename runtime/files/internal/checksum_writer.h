#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <giro/runtime/files/file_system.h>

#include "runtime/files/internal/manifest.h"
#include "runtime/internal/checksum.h"

namespace giro::detail {

// Writes to another writer, in large pieces, and computes the size and the checksums, of the whole file and of parts
// that a reader can verify alone.
class ChecksumWriter final : public FileSystem::Writer {
 public:
  // A part has at least 1 MiB, and at least 1 / `parts_of_file` of the bytes before it, so that a manifest lists a few
  // hundred of them.
  ChecksumWriter(std::unique_ptr<FileSystem::Writer> writer, std::uint64_t parts_of_file);

  void write(const void* data, std::size_t bytes) override;
  void sync() override;
  void close() override;

  std::uint64_t bytes() const noexcept { return bytes_; }
  std::string digits() const { return checksum_.digits(); }
  // The parts, which cover all bytes; empty if there is only one.
  std::vector<Manifest::Part> parts() const;

 private:
  void flush();
  void pass_on(const char* data, std::size_t bytes);

  std::unique_ptr<FileSystem::Writer> writer_;
  std::uint64_t parts_of_file_;
  std::string small_;  // small writes not passed on yet
  Checksum checksum_, part_;
  std::vector<Manifest::Part> parts_;  // the complete ones
  std::uint64_t bytes_ = 0, part_bytes_ = 0;
};

}  // namespace giro::detail
