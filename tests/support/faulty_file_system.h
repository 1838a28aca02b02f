#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <giro/runtime/error.h>
#include <giro/runtime/files/file_system.h>

namespace giro::test {

// The machine's file system, with a record of the calls, such as "rename model.tmp", and injected faults: call number
// `fail_at`, counted from 1, fails. With `crash`, every later call fails as well, as if the process had died.
class FaultyFileSystem : public FileSystem {
 public:
  explicit FaultyFileSystem(std::size_t fail_at = 0, bool crash = false) : fail_at_(fail_at), crash_(crash) {}

  std::vector<std::string> calls;

  std::unique_ptr<Writer> create(const std::string& path) override {
    enter("create", path);
    return std::make_unique<FaultyWriter>(*this, path, files_->create(path));
  }
  std::unique_ptr<Writer> append(const std::string& path) override {
    enter("append", path);
    return std::make_unique<FaultyWriter>(*this, path, files_->append(path));
  }
  std::unique_ptr<Reader> open(const std::string& path) override {
    enter("read", path);
    return files_->open(path);
  }
  Status status(const std::string& path) override {
    enter("status", path);
    return files_->status(path);
  }
  void rename(const std::string& from, const std::string& to) override {
    enter("rename", to);
    files_->rename(from, to);
  }
  void remove(const std::string& path) override {
    enter("remove", path);
    files_->remove(path);
  }
  void create_directories(const std::string& path) override {
    enter("create_directories", path);
    files_->create_directories(path);
  }
  void sync_directory(const std::string& path) override {
    enter("sync_directory", path);
    files_->sync_directory(path);
  }
  std::vector<std::string> list(const std::string& path) override {
    enter("list", path);
    return files_->list(path);
  }
  std::unique_ptr<Lock> lock(const std::string& path, const std::string& holder) override {
    enter("lock", path);
    return files_->lock(path, holder);
  }
  std::uint64_t free_bytes(const std::string& path) override {
    enter("free_bytes", path);
    return files_->free_bytes(path);
  }

 private:
  class FaultyWriter final : public Writer {
   public:
    FaultyWriter(FaultyFileSystem& owner, std::string path, std::unique_ptr<Writer> writer)
        : owner_(owner), path_(std::move(path)), writer_(std::move(writer)) {}

    // A failing write has written half of its data.
    void write(const void* data, std::size_t bytes) override {
      try {
        owner_.enter("write", path_);
      } catch (const Error&) {
        writer_->write(data, bytes / 2);
        throw;
      }
      writer_->write(data, bytes);
    }
    void sync() override {
      owner_.enter("sync", path_);
      writer_->sync();
    }
    void close() override {
      owner_.enter("close", path_);
      writer_->close();
    }

   private:
    FaultyFileSystem& owner_;
    std::string path_;
    std::unique_ptr<Writer> writer_;
  };

  void enter(const std::string& call, const std::string& path) {
    const std::lock_guard lock(mutex_);  // stores write concurrently
    calls.push_back(call + " " + std::filesystem::path(path).filename().string());
    if (calls.size() == fail_at_ || (crash_ && fail_at_ > 0 && calls.size() > fail_at_)) {
      throw Error(ErrorCode::io, "injected: " + calls.back());
    }
  }

  std::shared_ptr<FileSystem> files_ = posix_file_system();
  std::size_t fail_at_;
  bool crash_;
  std::mutex mutex_;
};

}  // namespace giro::test
