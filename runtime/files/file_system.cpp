#include <giro/runtime/files/file_system.h>

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include <giro/runtime/error.h>
#include <giro/runtime/not_copied.h>

#include "runtime/files/file_operations.h"
#include "runtime/throw_error.h"

namespace giro {
namespace {

[[noreturn]] void fail(const std::string& what, const std::string& path, int error) {
  throw_error(error == ENOENT ? ErrorCode::not_found : ErrorCode::io, "cannot {} '{}': {}", what, path,
              std::strerror(error));
}

// A file descriptor with its path for messages. Opens a regular file or, with O_DIRECTORY, a directory. Anything else
// is an error, and is not waited for: opening a pipe would wait for its other end, and reading one might never end.
class File : detail::NotCopied {
 public:
  File(const std::string& path, int flags, const char* what) : path_(path) {
    do {
      descriptor_ = ::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
    } while (descriptor_ < 0 && errno == EINTR);
    if (descriptor_ < 0 && errno != ENXIO) fail(what, path, errno);
    if ((flags & O_DIRECTORY) != 0) return;
    struct stat status {};  // ENXIO: a pipe that nothing reads, or a socket
    if (descriptor_ >= 0 && ::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode)) return;
    if (descriptor_ >= 0) ::close(descriptor_);
    throw_error(ErrorCode::io, "cannot {} '{}': it is {}not a regular file", what, path,
                S_ISDIR(status.st_mode) ? "a directory, " : "");
  }
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }

  int descriptor() const { return descriptor_; }
  const std::string& path() const { return path_; }

  void sync() {
    if (::fsync(descriptor_) != 0) fail("sync", path_, errno);
  }
  // Error(io) if what is written is lost, because the file was removed or another one has taken its place.
  void expect_kept() const {
    struct stat here = {}, there = {};
    if (::fstat(descriptor_, &here) != 0) fail("access", path_, errno);
    if (here.st_nlink > 0) return;
    // Some file systems do not count the names of a file.
    if (::stat(path_.c_str(), &there) == 0 && here.st_ino == there.st_ino && here.st_dev == there.st_dev) return;
    throw_error(ErrorCode::io, "'{}' was removed or replaced while it was being written", path_);
  }
  void close() {
    const int descriptor = descriptor_;
    descriptor_ = -1;
    if (::close(descriptor) != 0 && errno != EINTR) fail("close", path_, errno);
  }

 private:
  std::string path_;
  int descriptor_ = -1;
};

class PosixWriter final : public FileSystem::Writer {
 public:
  // `mode` is O_TRUNC or O_APPEND.
  PosixWriter(const std::string& path, int mode) : file_(path, O_WRONLY | O_CREAT | mode, "create") {}

  void write(const void* data, std::size_t bytes) override {
    const char* next = static_cast<const char*>(data);
    while (bytes > 0) {
      const ssize_t written = ::write(file_.descriptor(), next, bytes);
      if (written < 0) {
        if (errno == EINTR) continue;
        fail("write", file_.path(), errno);
      }
      next += written;
      bytes -= static_cast<std::size_t>(written);
      waiting_ += static_cast<std::size_t>(written);
      if (waiting_ < kFlush) continue;
      // Start writing to disk now, so that sync has less to wait for. sync reports a failure.
      (void)::sync_file_range(file_.descriptor(), 0, 0, SYNC_FILE_RANGE_WRITE);
      waiting_ = 0;
    }
    file_.expect_kept();
  }
  void sync() override {
    file_.sync();
    file_.expect_kept();
  }
  void close() override { file_.close(); }

 private:
  static constexpr std::size_t kFlush = std::size_t{16} << 20;

  File file_;
  std::size_t waiting_ = 0;  // bytes since the last flush
};

class PosixReader final : public FileSystem::Reader {
 public:
  explicit PosixReader(const std::string& path) : file_(path, O_RDONLY, "read") {}

  std::size_t size() override {
    struct stat status {};
    if (::fstat(file_.descriptor(), &status) != 0) fail("read", file_.path(), errno);
    return static_cast<std::size_t>(status.st_size);
  }
  std::size_t read(void* data, std::size_t bytes) override {
    return read_all(data, bytes,
                    [&](void* to, std::size_t left, std::size_t) { return ::read(file_.descriptor(), to, left); });
  }
  std::size_t read_at(std::uint64_t offset, void* data, std::size_t bytes) const override {
    return read_all(data, bytes, [&](void* to, std::size_t left, std::size_t done) {
      return ::pread(file_.descriptor(), to, left, static_cast<off_t>(offset + done));
    });
  }

 private:
  // Calls read(to, bytes left, bytes done) until there is nothing left.
  template <class Read>
  std::size_t read_all(void* data, std::size_t bytes, const Read& read) const {
    std::size_t done = 0;
    while (done < bytes) {
      const ssize_t got = read(static_cast<char*>(data) + done, bytes - done, done);
      if (got == 0) break;
      if (got < 0) {
        if (errno == EINTR) continue;
        fail("read", file_.path(), errno);
      }
      done += static_cast<std::size_t>(got);
    }
    return done;
  }

  File file_;
};

class PosixLock final : public FileSystem::Lock {
 public:
  explicit PosixLock(const std::string& path) : file_(path, O_RDWR | O_CREAT, "create") {}
  // Closing the file does not release the lock while a forked child has it open, so it is unlocked here, but never by
  // the child.
  ~PosixLock() override {
    if (::getpid() == process_) (void)::flock(file_.descriptor(), LOCK_UN);
  }

  // Names the holder in the file; false if the lock is held already.
  bool take(const std::string& holder) {
    while (::flock(file_.descriptor(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) return false;
      if (errno != EINTR) fail("lock", file_.path(), errno);
    }
    const bool is_named =
        ::ftruncate(file_.descriptor(), 0) == 0 && ::pwrite(file_.descriptor(), holder.data(), holder.size(), 0) >= 0;
    if (!is_named) fail("write", file_.path(), errno);
    return true;
  }

 private:
  File file_;
  pid_t process_ = ::getpid();
};

class PosixFileSystem final : public FileSystem {
 public:
  std::unique_ptr<Writer> create(const std::string& path) override {
    return std::make_unique<PosixWriter>(path, O_TRUNC);
  }
  std::unique_ptr<Writer> append(const std::string& path) override {
    return std::make_unique<PosixWriter>(path, O_APPEND);
  }

  std::unique_ptr<Reader> open(const std::string& path) override { return std::make_unique<PosixReader>(path); }

  Status status(const std::string& path) override {
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0) {
      if (errno == ENOENT || errno == ENOTDIR) return {};
      fail("access", path, errno);
    }
    if (S_ISDIR(status.st_mode)) return {Kind::directory, 0};
    if (S_ISREG(status.st_mode)) return {Kind::file, static_cast<std::uint64_t>(status.st_size)};
    return {Kind::other, 0};
  }

  void rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) fail("rename to '" + to + "'", from, errno);
  }

  void remove(const std::string& path) override {
    if (std::remove(path.c_str()) != 0) fail("remove", path, errno);
  }

  void create_directories(const std::string& path) override {
    try {
      std::filesystem::create_directories(path);
    } catch (const std::filesystem::filesystem_error& error) {
      fail("create the directory", path, error.code().value());
    }
  }

  void sync_directory(const std::string& path) override { File(path, O_RDONLY | O_DIRECTORY, "sync").sync(); }

  std::vector<std::string> list(const std::string& path) override {
    std::vector<std::string> names;
    // std::filesystem's iterator terminates the program if memory runs out.
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(path.c_str()), ::closedir);
    if (!directory) fail("list", path, errno);
    for (;;) {
      errno = 0;
      const dirent* const entry = ::readdir(directory.get());
      if (entry == nullptr && errno != 0) fail("list", path, errno);
      if (entry == nullptr) break;
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  std::unique_ptr<Lock> lock(const std::string& path, const std::string& holder) override {
    auto lock = std::make_unique<PosixLock>(path);
    return lock->take(holder) ? std::move(lock) : nullptr;
  }

  std::uint64_t free_bytes(const std::string& path) override {
    struct statvfs status {};
    if (::statvfs(path.c_str(), &status) != 0) fail("determine the free space at", path, errno);
    return static_cast<std::uint64_t>(status.f_bavail) * status.f_frsize;
  }
};

}  // namespace

std::shared_ptr<FileSystem> posix_file_system() {
  static const auto files = std::make_shared<PosixFileSystem>();
  return files;
}

std::vector<char> FileSystem::read(const std::string& path) {
  const auto reader = open(path);
  constexpr std::size_t kChunk = std::size_t{1} << 16;  // room to detect the end of the file, or more content
  std::vector<char> content(reader->size() + kChunk);
  std::size_t size = 0;
  for (;;) {
    size += reader->read(content.data() + size, content.size() - size);
    if (size < content.size()) break;
    content.resize(2 * size);
  }
  content.resize(size);
  return content;
}

void replace_file(FileSystem& files, const std::string& path, const std::function<void(FileSystem::Writer&)>& write) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  const std::string temporary = fmt::format("{}.tmp-{}", path, ::getpid());
  std::unique_ptr<FileSystem::Writer> writer;
  try {
    writer = files.create(temporary);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::not_found || parent.empty()) throw;
    detail::create_durable_directory(files, parent);
    writer = files.create(temporary);
  }
  try {
    write(*writer);
    writer->sync();
    writer->close();
    files.rename(temporary, path);
  } catch (...) {
    detail::ignore_errors([&] { files.remove(temporary); });
    throw;
  }
  files.sync_directory(parent.empty() ? "." : parent);
}

void replace_file(FileSystem& files, const std::string& path, std::string_view content) {
  replace_file(files, path, [&](FileSystem::Writer& writer) { writer.write(content.data(), content.size()); });
}

}  // namespace giro
