#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <giro/runtime/file_system.h>

namespace giro::detail {

// 64-bit XXH3 of everything added so far, however it was split.
class Checksum {
 public:
  Checksum();
  Checksum(Checksum&&) noexcept;
  Checksum& operator=(Checksum&&) noexcept;
  ~Checksum();

  void add(const void* data, std::size_t bytes);
  // As 16 hexadecimal digits.
  std::string digits() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Writes to another writer, in large pieces, and computes the size and the checksum.
class ChecksumWriter final : public FileSystem::Writer {
 public:
  explicit ChecksumWriter(std::unique_ptr<FileSystem::Writer> writer);

  void write(const void* data, std::size_t bytes) override;
  void sync() override;
  void close() override;

  std::uint64_t bytes() const noexcept { return bytes_; }
  std::string digits() const { return checksum_.digits(); }

 private:
  void flush();

  std::unique_ptr<FileSystem::Writer> writer_;
  std::string small_;  // small writes not passed on yet
  Checksum checksum_;
  std::uint64_t bytes_ = 0;
};

}  // namespace giro::detail
