#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <giro/runtime/error.h>
#include <giro/runtime/files/archive.h>
#include <giro/runtime/files/checkpoint_store.h>
#include <giro/runtime/files/file_system.h>

#include "runtime/checksum.h"

namespace giro::detail {

// checkpoint.json: the checkpoint's record, what its other files hold, and what the run remembers.
//
// The file begins with the checksum of everything after it:
//   {"checksum": "0123456789abcdef",
//    "version": 2,
//    "checkpoint": {...},
//    "memory": {...}}
struct Manifest {
  static constexpr int kVersion = 3, kVersionWithoutShards = 2;
  static constexpr std::size_t kMaxBytes = std::size_t{4} << 20;  // parsing takes a multiple of that much memory

  // Consecutive bytes of a file with their own checksum.
  struct Part {
    std::uint64_t bytes = 0;
    std::string xxh3;

    void persist(Archive& archive) { archive("bytes", bytes)("xxh3", xxh3); }
  };
  struct File {
    std::string name;
    std::uint64_t bytes = 0;
    std::string xxh3;
    // Cover all bytes, so that a process can verify only the bytes it needs; small and older files have none.
    std::vector<Part> parts = {};

    void persist(Archive& archive) {
      archive("name", name)("bytes", bytes)("xxh3", xxh3);
      if (archive.is_reading() ? archive.contains("parts") : !parts.empty()) archive("parts", parts);
    }
  };
  // The first `bytes` of the file `name` next to the checkpoint.
  struct Lines {
    std::string path, name;  // the path in the archive
    std::uint64_t lines = 0, bytes = 0;
    std::string xxh3;
    // Each consists of whole lines, and they cover all bytes, so that damage costs only the lines of one part; older
    // manifests have none.
    std::vector<Part> parts = {};

    void persist(Archive& archive) {
      archive("path", path)("name", name)("lines", lines)("bytes", bytes)("xxh3", xxh3)("parts", parts);
    }
  };

  int version = kVersion;  // of the format it was read from
  CheckpointRecord record = {};
  std::vector<File> files = {};  // the state and the memory, if any; then the same for each shard
  std::vector<Lines> lines = {};
  std::string memory = "{}";  // Archive::text()

  void persist(Archive& archive) {
    record.persist(archive);
    archive("files", files)("lines", lines);
  }
};

// The size and the checksums of a file that is being written: of all its bytes, and of parts that a reader can verify
// alone.
class PartChecksums {
 public:
  // A part has at least `least` bytes, and at least 1 / `parts_of_file` of the bytes before it, so that a manifest
  // lists a few hundred parts. With `of_lines` each ends with a line.
  PartChecksums(std::uint64_t least, std::uint64_t parts_of_file, bool of_lines = false)
      : least_(least), parts_of_file_(parts_of_file), of_lines_(of_lines) {}

  void add(std::string_view bytes);

  std::uint64_t bytes() const noexcept { return bytes_; }
  std::string digits() const { return all_.digits(); }
  // Cover all bytes.
  std::vector<Manifest::Part> parts() const;

 private:
  std::uint64_t least_, parts_of_file_;
  bool of_lines_;
  std::uint64_t bytes_ = 0, part_bytes_ = 0;  // the latter of the unfinished part
  Checksum all_, part_;
  std::vector<Manifest::Part> parts_;  // the finished ones
};

// Error(invalid_argument) if it would be longer than kMaxBytes.
std::string manifest_text(Manifest manifest);
// Text with its checksum in front. `rest` is what follows `{"checksum": "...",`.
std::string with_checksum(const std::string& rest);

// Whether a file holds what callbacks remember, whole or as a shard; otherwise it holds the state.
bool is_memory(const Manifest::File& file);
bool is_shard(const Manifest::File& file);

// Reads and verifies the manifest of the checkpoint in a directory. Errors naming it: io; not_found; corrupt_data;
// unsupported for a newer version.
Manifest read_manifest(FileSystem& files, const std::string& unit);

// Error of the given code, naming `where`, unless all numbers are finite and at least 0.
void check_record(const CheckpointRecord& record, ErrorCode code, const std::string& where);

}  // namespace giro::detail
