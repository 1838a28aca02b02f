#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace giro {

// The few file operations giro makes, behind one interface so that tests can make each of them fail. Every error is
// Error(io) naming the path and the system's reason; not_found where a file to be read is not there. Asynchronous saves
// call it from threads of their own, so several may be in it at once.
class FileSystem {
 public:
  // A file being written. What was written is durable once sync returns.
  class Writer {
   public:
    virtual ~Writer() = default;
    virtual void write(const void* data, std::size_t bytes) = 0;
    virtual void sync() = 0;
    virtual void close() = 0;
  };

  // A file being read, from its beginning on.
  class Reader {
   public:
    virtual ~Reader() = default;
    virtual std::size_t size() = 0;  // in bytes; 0 for what does not tell, such as a file of /proc
    // As many bytes as were asked for, fewer only at the file's end: how many.
    virtual std::size_t read(void* data, std::size_t bytes) = 0;
  };
  // Held until this goes, or its process dies.
  class Lock {
   public:
    virtual ~Lock() = default;
  };
  enum class Kind { none, file, directory, other };  // a symbolic link is another, whatever it leads to
  struct Status {
    Kind kind = Kind::none;
    std::uint64_t bytes = 0;  // of a file
  };

  virtual ~FileSystem() = default;
  virtual std::unique_ptr<Writer> create(const std::string& path) = 0;  // truncates; mode 0666 less the umask
  virtual std::unique_ptr<Writer> append(const std::string& path) = 0;  // at its end; as create where it is not there
  virtual std::unique_ptr<Reader> open(const std::string& path) = 0;
  virtual Status status(const std::string& path) = 0;
  virtual void rename(const std::string& from, const std::string& to) = 0;
  virtual void remove(const std::string& path) = 0;  // a file or an empty directory
  virtual void create_directories(const std::string& path) = 0;
  virtual void sync_directory(const std::string& path) = 0;
  // Names in a directory, sorted.
  virtual std::vector<std::string> list(const std::string& path) = 0;
  // Makes the file at `path` if there is none, locks it and puts `holder` into it. Null where another holds the lock,
  // in this process or any other: the file then tells who. Another process's death frees its lock.
  virtual std::unique_ptr<Lock> lock(const std::string& path, const std::string& holder) = 0;
  // How many bytes the file system that `path` lies on has room for.
  virtual std::uint64_t free_bytes(const std::string& path) = 0;

  // A whole file.
  std::vector<char> read(const std::string& path);
};

// The machine's own.
std::shared_ptr<FileSystem> posix_file_system();

// Writes a file so that `path` holds either what it held before or all of what `write` wrote, even across a power
// loss: a temporary beside it, synced, renamed over it, and the directory synced, which is made where there is none.
void replace_file(FileSystem& files, const std::string& path, const std::function<void(FileSystem::Writer&)>& write);
void replace_file(FileSystem& files, const std::string& path, std::string_view content);

}  // namespace giro
