#include "callbacks/internal/log_file.h"

#include <fmt/format.h>

#include <cstddef>
#include <filesystem>
#include <utility>

#include <giro/runtime/error.h>

#include "runtime/files/internal/directories.h"

namespace giro::detail {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 16;

// The path of a file's lock, next to the file. It is the same for all names of the file.
std::string lock_of(const std::string& path) {
  std::error_code error;
  std::filesystem::path file = std::filesystem::weakly_canonical(path, error);
  if (error) file = path;
  return (file.parent_path() / fmt::format(".{}.lock", file.filename().string())).string();
}

}  // namespace

LogFile::LogFile(std::string path, LoggerOptions options, LineEnd line_end)
    : path_(std::move(path)), options_(std::move(options)), line_end_(line_end) {
  if (path_.empty()) throw Error(ErrorCode::invalid_argument, "logger: the file's name is empty");
  if (!(options_.flush_interval >= 0)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("logger '{}': flush_interval is {}, expected at least 0", path_, options_.flush_interval));
  }
}

// Only complete lines: a crash may have cut the last one.
std::vector<std::string> LogFile::read_lines() const {
  const std::vector<char> content = options_.files->read(path_);
  const std::string_view text(content.data(), content.size());
  std::vector<std::string> lines;
  std::size_t begin = 0;
  for (std::size_t end; (end = line_end_(text, begin)) != text.npos; begin = end + 1) {
    lines.emplace_back(text.substr(begin, end - begin));
    if (lines.back().ends_with('\r')) lines.back().pop_back();
  }
  if (text.find('\n', begin) != text.npos) {
    throw Error(ErrorCode::corrupt_data,
                fmt::format("logger: '{}' has an unclosed quote after line {}", path_, lines.size()));
  }
  return lines;
}

std::shared_ptr<void> LogFile::claim(std::shared_ptr<void> owner) {
  if (std::shared_ptr<void> held = claim_.lock()) return held;
  FileSystem& files = *options_.files;
  const std::filesystem::path parent = std::filesystem::path(path_).parent_path();
  if (!parent.empty()) files.create_directories(parent.string());
  lock_ = lock_for_writing(files, lock_of(path_), path_);
  remove_temporaries(files, path_ + ".tmp-");
  std::shared_ptr<void> held(this, [this, owner = std::move(owner)](void*) mutable {
    const std::shared_ptr<void> until_released =
        std::move(owner);  // claim_ keeps this function, so the owner must leave it
    release();
  });
  claim_ = held;
  return held;
}

void LogFile::release() noexcept {
  try {
    flush();
  } catch (...) {
    // This cannot report errors; sync() does.
  }
  writer_.reset();
  lock_.reset();
}

bool LogFile::reopen() {
  if (!has_begun_) return false;
  const FileSystem::Status status = options_.files->status(path_);
  if (status.kind == FileSystem::Kind::file && status.bytes != bytes_) return false;
  writer_ = options_.files->append(path_);
  return true;
}

void LogFile::open(const std::function<bool(const std::string& line)>& stays) {
  flush();
  FileSystem& files = *options_.files;
  if (!options_.append && !has_begun_) {
    writer_ = files.create(path_);
    has_begun_ = true;
    bytes_ = 0;
    return;
  }
  try {
    replace([&](const std::vector<std::string>& lines) {
      std::string content;
      for (const std::string& line : lines) {
        if (stays(line)) content.append(line).append(1, '\n');
      }
      return content;
    });
  } catch (const Error& error) {
    if (error.code() != ErrorCode::not_found) throw;
    writer_ = files.append(path_);
    bytes_ = 0;
  }
}

void LogFile::replace(const std::function<std::string(const std::vector<std::string>& lines)>& content) {
  flush();
  FileSystem& files = *options_.files;
  const std::string replacing = content(read_lines());
  replace_file(files, path_, replacing);
  writer_ = files.append(path_);
  bytes_ = replacing.size();
}

void LogFile::end_line(double date) {
  text += '\n';
  // A clock that was set back must not delay the lines.
  if (text.size() < kBufferBytes && date >= flushed_date_ && date < flushed_date_ + options_.flush_interval) return;
  flush();
  flushed_date_ = date;
}

void LogFile::flush() {
  if (text.empty() || !writer_) return;
  // Lines are not written again after a failed write, which may have written a part of them.
  const std::string lines = std::exchange(text, {});
  const std::optional<std::uint64_t> before = std::exchange(bytes_, std::nullopt);
  writer_->write(lines.data(), lines.size());
  if (before) bytes_ = *before + lines.size();
}

void LogFile::sync() {
  flush();
  if (writer_) writer_->sync();
}

}  // namespace giro::detail
