#include "callbacks/line_writer.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include <giro/runtime/files/archive.h>

#include "runtime/files/file_operations.h"
#include "runtime/throw_error.h"

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

LineWriter::LineWriter(std::string name, std::string path, LoggerOptions options)
    : name_(std::move(name)), path_(std::move(path)), options_(std::move(options)) {
  if (path_.empty()) throw_invalid("logger: the file's name is empty");
  if (!(options_.flush_interval >= 0)) {
    throw_invalid("logger '{}': flush_interval is {}, expected at least 0", path_, options_.flush_interval);
  }
}

// Only complete lines: a crash may have cut the last one.
std::vector<std::string> LineWriter::read_lines() const {
  const std::vector<char> content = options_.files->read(path_);
  const std::string_view text(content.data(), content.size());
  std::vector<std::string> lines;
  std::size_t begin = 0;
  for (std::size_t end; (end = line_end(text, begin)) != text.npos; begin = end + 1) {
    lines.emplace_back(text.substr(begin, end - begin));
    if (lines.back().ends_with('\r')) lines.back().pop_back();
  }
  if (text.find('\n', begin) != text.npos) {
    throw_error(ErrorCode::corrupt_data, "logger: '{}' has an unclosed quote after line {}", path_, lines.size());
  }
  return lines;
}

std::shared_ptr<void> LineWriter::claim(std::shared_ptr<void> self) {
  if (std::shared_ptr<void> held = claim_.lock()) return held;
  FileSystem& files = *options_.files;
  const std::filesystem::path parent = std::filesystem::path(path_).parent_path();
  if (!parent.empty()) files.create_directories(parent.string());
  lock_ = lock_for_writing(files, lock_of(path_), path_);
  remove_temporaries(files, path_ + ".tmp-");
  std::shared_ptr<void> held(this, [this, self = std::move(self)](void*) mutable {
    const std::shared_ptr<void> until_released = std::move(self);  // claim_ keeps this function, so it must be left
    try {
      write_lines();
    } catch (...) {
      // This cannot report errors; flush() does.
    }
    writer_.reset();
    lock_.reset();
  });
  claim_ = held;
  return held;
}

bool LineWriter::reopen() {
  if (!has_begun_) return false;
  const FileSystem::Status status = options_.files->status(path_);
  if (status.kind == FileSystem::Kind::file && status.bytes != bytes_) return false;
  writer_ = options_.files->append(path_);
  return true;
}

void LineWriter::begin(const Elapsed& elapsed) {
  if (!options_.append && (writer_ || reopen())) return;
  reset();
  records_ = 0;
  write_lines();
  if (!options_.append && !has_begun_) {
    writer_ = options_.files->create(path_);
    has_begun_ = true;
    bytes_ = 0;
  } else {
    const bool exists = unless_gone([&] {
      replace([&](const std::vector<std::string>& lines) {
        std::string content;
        for (const std::string& line : lines) {
          if (const std::int64_t step = read(line); step >= 0) {
            const bool is_later = step >= elapsed.steps || records_ >= resumed_.value_or(records_ + 1);
            if (options_.append && is_later) continue;
            ++records_;
          }
          content.append(line).append(1, '\n');
        }
        return content;
      });
    });
    if (!exists) {
      writer_ = options_.files->append(path_);
      bytes_ = 0;
    }
  }
  resumed_.reset();
}

void LineWriter::replace(const std::function<std::string(const std::vector<std::string>& lines)>& content) {
  write_lines();
  FileSystem& files = *options_.files;
  const std::string replacing = content(read_lines());
  replace_file(files, path_, replacing);
  writer_ = files.append(path_);
  bytes_ = replacing.size();
}

void LineWriter::write(const MetricRecord& record) {
  if (!writer_) begin(record.elapsed);
  if (!append(text_, record)) return;
  text_ += '\n';
  ++records_;
  // Only the records of a loop have a date. A clock that was set back must not delay the lines.
  const double date = record.elapsed.date > 0 ? record.elapsed.date : Elapsed::now();
  const bool waits = date >= flushed_date_ && date < flushed_date_ + options_.flush_interval;
  if (text_.size() < kBufferBytes && waits) return;
  write_lines();
  flushed_date_ = date;
}

void LineWriter::write_lines() {
  if (text_.empty() || !writer_) return;
  // Lines are not written again after a failed write, which may have written a part of them.
  const std::string lines = std::exchange(text_, {});
  const std::optional<std::uint64_t> before = std::exchange(bytes_, std::nullopt);
  writer_->write(lines.data(), lines.size());
  if (before) bytes_ = *before + lines.size();
}

void LineWriter::flush() {
  write_lines();
  if (writer_) writer_->sync();
}

void LineWriter::persist(Archive& archive) {
  archive("records", records_);
  if (archive.is_reading()) {
    options_.append = true;
    resumed_ = records_;
  } else {
    flush();
  }
}

void LineWriter::reject(const std::string& line, const std::string& expected) const {
  throw_error(ErrorCode::corrupt_data, "{}: '{}' has the line {:?}, expected {}", name_, path_, line.substr(0, 60),
              expected);
}

}  // namespace giro::detail
