#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <system_error>

namespace giro::test {

inline std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// A directory in memory if the machine has one, for tests that sync a lot and need no disk.
inline std::filesystem::path memory_directory() {
  const std::filesystem::path memory = "/dev/shm";
  std::error_code error;
  const bool has_room = std::filesystem::space(memory, error).available > std::uintmax_t{1} << 28 && !error;
  return has_room && ::access(memory.c_str(), W_OK) == 0 ? memory : std::filesystem::temp_directory_path();
}

// A new directory, removed with its contents on destruction; in memory unless it is given a parent.
class TemporaryDirectory {
 public:
  explicit TemporaryDirectory(const std::filesystem::path& parent = memory_directory()) {
    std::string name = (parent / "giro_XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary directory");
    path_ = name;
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }

  std::string path() const { return path_.string(); }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  // Returns the file's path.
  std::string write(const std::string& name, const std::string& content) const {
    write_text(*this / name, content);
    return *this / name;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace giro::test
