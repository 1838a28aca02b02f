#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace giro {

// The few file operations giro makes, behind one interface so that tests can make each of them fail. Every error is
// Error(io) naming the path and the system's reason; not_found where a file to be read is not there.
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

  virtual ~FileSystem() = default;
  virtual std::unique_ptr<Writer> create(const std::string& path) = 0;  // truncates; mode 0666 less the umask
  virtual std::unique_ptr<Writer> append(const std::string& path) = 0;  // at its end; as create where it is not there
  virtual std::vector<char> read(const std::string& path) = 0;
  virtual void rename(const std::string& from, const std::string& to) = 0;
  virtual void remove(const std::string& path) = 0;
  virtual void create_directories(const std::string& path) = 0;
  virtual void sync_directory(const std::string& path) = 0;
  // Names in a directory, sorted.
  virtual std::vector<std::string> list(const std::string& path) = 0;
};

// The machine's own.
std::shared_ptr<FileSystem> posix_file_system();

// Writes a file so that `path` holds either what it held before or all of what `write` wrote, even across a power
// loss: a temporary beside it, synced, renamed over it, and the directory synced.
void replace_file(FileSystem& files, const std::string& path, const std::function<void(FileSystem::Writer&)>& write);
void replace_file(FileSystem& files, const std::string& path, std::string_view content);

}  // namespace giro
