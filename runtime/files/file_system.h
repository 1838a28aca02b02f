#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace giro {

// The few file operations giro makes, behind one interface so that tests can make each of them fail. Every error is an
// Error(io) naming the path and the system's reason, or not_found if a file to read does not exist. Only regular files
// are read and written: a directory, a pipe, a socket or a device in the place of one is an error. Asynchronous saves
// call it from their own threads, so it must be thread-safe.
class FileSystem {
 public:
  // A file being written. Data written so far is durable once sync returns. write and sync fail if the data is lost
  // because something has removed or replaced the file.
  class Writer {
   public:
    virtual ~Writer() = default;
    virtual void write(const void* data, std::size_t bytes) = 0;
    virtual void sync() = 0;
    virtual void close() = 0;
  };

  // A file being read, from its beginning.
  class Reader {
   public:
    virtual ~Reader() = default;
    virtual std::size_t size() = 0;  // in bytes; 0 if unknown, e.g. for a file of /proc
    // Reads `bytes` bytes, fewer only at the end of the file. Returns how many it read.
    virtual std::size_t read(void* data, std::size_t bytes) = 0;
    // The same from byte `offset` on, independently of read(). Several threads may call it at once.
    virtual std::size_t read_at(std::uint64_t offset, void* data, std::size_t bytes) const = 0;
  };
  // Held until it is destroyed or its process dies.
  class Lock {
   public:
    virtual ~Lock() = default;
  };
  enum class Kind { none, file, directory, other };  // a symbolic link is `other`, whatever it points to
  struct Status {
    Kind kind = Kind::none;
    std::uint64_t bytes = 0;  // of a file
  };

  virtual ~FileSystem() = default;
  virtual std::unique_ptr<Writer> create(const std::string& path) = 0;  // truncates; mode 0666 minus the umask
  virtual std::unique_ptr<Writer> append(const std::string& path) = 0;  // at its end; creates it if missing
  virtual std::unique_ptr<Reader> open(const std::string& path) = 0;
  virtual Status status(const std::string& path) = 0;
  virtual void rename(const std::string& from, const std::string& to) = 0;
  virtual void remove(const std::string& path) = 0;  // a file or an empty directory
  virtual void create_directories(const std::string& path) = 0;
  virtual void sync_directory(const std::string& path) = 0;
  // Names in a directory, sorted.
  virtual std::vector<std::string> list(const std::string& path) = 0;
  // Creates the file at `path` if missing, locks it and writes `holder` into it. Null if the lock is held already, by
  // this process or another; the file then names the holder. The lock is freed when the holding process dies.
  virtual std::unique_ptr<Lock> lock(const std::string& path, const std::string& holder) = 0;
  // Free bytes of the file system that contains `path`.
  virtual std::uint64_t free_bytes(const std::string& path) = 0;

  // Reads a whole file.
  std::vector<char> read(const std::string& path);
};

// The machine's file system.
std::shared_ptr<FileSystem> posix_file_system();

// Writes a file so that `path` holds either its old content or everything `write` wrote, even across a power loss:
// writes a temporary next to it, syncs it, renames it over `path`, and syncs the directory, which is created if
// missing.
void replace_file(FileSystem& files, const std::string& path, const std::function<void(FileSystem::Writer&)>& write);
void replace_file(FileSystem& files, const std::string& path, std::string_view content);

}  // namespace giro
