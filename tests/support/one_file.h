#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <giro/runtime/error.h>
#include <giro/runtime/files/file_system.h>

#include "tests/support/memory_reader.h"

namespace giro::test {

// A file system in memory with one file.
class OneFile final : public FileSystem {
 public:
  explicit OneFile(std::string content = {}, std::string name = "file")
      : content(std::move(content)), name_(std::move(name)) {}

  std::string content;

  std::unique_ptr<Writer> create(const std::string& path) override {
    find(path);
    content.clear();
    return append(path);
  }
  std::unique_ptr<Writer> append(const std::string& path) override {
    find(path);
    return std::make_unique<MemoryWriter>(content);
  }
  std::unique_ptr<Reader> open(const std::string& path) override {
    find(path);
    return std::make_unique<MemoryReader>(std::shared_ptr<const std::string>(std::shared_ptr<void>(), &content));
  }
  Status status(const std::string& path) override {
    return path == name_ ? Status{Kind::file, content.size()} : Status{};
  }
  void rename(const std::string& from, const std::string&) override { find(from); }
  void remove(const std::string& path) override { find(path); }
  void create_directories(const std::string&) override {}
  void sync_directory(const std::string&) override {}
  std::vector<std::string> list(const std::string&) override { return {name_}; }
  std::unique_ptr<Lock> lock(const std::string& path, const std::string&) override {
    find(path);
    return std::make_unique<Lock>();
  }
  std::uint64_t free_bytes(const std::string&) override { return 0; }

 private:
  class MemoryWriter final : public Writer {
   public:
    explicit MemoryWriter(std::string& content) : content_(content) {}
    void write(const void* data, std::size_t bytes) override { content_.append(static_cast<const char*>(data), bytes); }
    void sync() override {}
    void close() override {}

   private:
    std::string& content_;
  };

  void find(const std::string& path) const {
    if (path != name_) throw Error(ErrorCode::not_found, "no file '" + path + "'");
  }

  std::string name_;
};

}  // namespace giro::test
