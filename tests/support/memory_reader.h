#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include <giro/runtime/files/file_system.h>

namespace giro::test {

// Reads a file that is in memory.
class MemoryReader final : public FileSystem::Reader {
 public:
  explicit MemoryReader(std::shared_ptr<const std::string> content) : content_(std::move(content)) {}
  std::size_t size() override { return content_->size(); }
  std::size_t read(void* data, std::size_t bytes) override {
    const std::size_t count = std::min(bytes, content_->size() - position_);
    std::memcpy(data, content_->data() + position_, count);
    position_ += count;
    return count;
  }
  std::size_t read_at(std::uint64_t offset, void* data, std::size_t bytes) const override {
    const std::string part = offset < content_->size() ? content_->substr(offset, bytes) : "";
    std::memcpy(data, part.data(), part.size());
    return part.size();
  }

 private:
  std::shared_ptr<const std::string> content_;
  std::size_t position_ = 0;
};

}  // namespace giro::test
