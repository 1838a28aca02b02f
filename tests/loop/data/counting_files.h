#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "tests/support/faulty_file_system.h"

namespace giro::test {

// The machine's file system, which counts the readers that are open.
class CountingFiles final : public FaultyFileSystem {
 public:
  std::atomic<int> open_now = 0, max_open = 0, opened = 0;

  std::unique_ptr<Reader> open(const std::string& path) override {
    return std::make_unique<Counted>(*this, posix_file_system()->open(path));
  }

 private:
  class Counted final : public Reader {
   public:
    Counted(CountingFiles& owner, std::unique_ptr<Reader> file) : owner_(owner), file_(std::move(file)) {
      ++owner_.opened;
      const int now = ++owner_.open_now;
      for (int most = owner_.max_open; most < now && !owner_.max_open.compare_exchange_weak(most, now);) {
      }
    }
    ~Counted() override { --owner_.open_now; }
    std::size_t size() override { return file_->size(); }
    std::size_t read(void* data, std::size_t bytes) override { return file_->read(data, bytes); }
    std::size_t read_at(std::uint64_t offset, void* data, std::size_t bytes) const override {
      return file_->read_at(offset, data, bytes);
    }

   private:
    CountingFiles& owner_;
    std::unique_ptr<Reader> file_;
  };
};

}  // namespace giro::test
