#include "runtime/files/line_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include <giro/runtime/error.h>

#include "runtime/checksum.h"
#include "runtime/files/file_operations.h"
#include "runtime/files/store_names.h"
#include "runtime/throw_error.h"

namespace giro::detail {

std::map<std::string, std::size_t> LineFiles::kept() const {
  std::map<std::string, std::size_t> kept;
  for (const auto& [path, file] : open_) kept.emplace(path, file.lines);
  return kept;
}

bool LineFiles::uses(const std::string& name) const {
  return std::any_of(open_.begin(), open_.end(), [&](const auto& open) { return open.second.name == name; });
}

LineFiles::File& LineFiles::file_for(const std::string& path, const Archive::Lines& lines) {
  const auto open = open_.find(path);
  if (open != open_.end() && open->second.lines == lines.first) return open->second;
  if (lines.first != 0) {
    throw_invalid(
        "the lines of '{}' begin at number {}, but {} are kept in '{}'; expected those of the store's latest archive()",
        path, lines.first, open == open_.end() ? 0 : open->second.lines, dir_);
  }
  std::int64_t number = 0;
  for (const std::string& name : files_.list(dir_)) {
    if (const auto taken = parse_lines_name(name)) number = std::max(number, *taken + 1);
  }
  new_.push_back(lines_name(number));
  File& file = open_[path];
  file = File{new_.back()};
  return file;
}

void LineFiles::remove_new() {
  for (const std::string& name : new_) {
    if (files_.status(path_of(dir_, name)).kind != FileSystem::Kind::none) files_.remove(path_of(dir_, name));
  }
  new_.clear();
}

std::vector<Manifest::Lines> LineFiles::append(const std::map<std::string, Archive::Lines>& all) {
  std::vector<Manifest::Lines> appended;
  bool has_new = false;
  for (const auto& [path, lines] : all) {
    const std::size_t made = new_.size();
    File& file = file_for(path, lines);
    const bool is_new = new_.size() > made;
    has_new = has_new || is_new;
    if (is_new || !lines.text.empty()) {
      const std::string name = path_of(dir_, file.name);
      const std::uint64_t bytes = files_.status(name).bytes;
      if (bytes != file.written.bytes()) {
        throw_error(ErrorCode::io,
                    "'{}' has {} bytes, expected the {} that were written; something else has changed it", name, bytes,
                    file.written.bytes());
      }
      write_durably(*files_.append(name), lines.text);
      file.written.add(lines.text);
      file.lines = lines.count;
    }
    const PartChecksums& written = file.written;
    appended.push_back({path, file.name, file.lines, written.bytes(), written.digits(), written.parts()});
  }
  if (has_new) files_.sync_directory(dir_);
  return appended;
}

Archive::Lines read_lines(FileSystem& files, const std::string& dir, const Manifest::Lines& lines) {
  const std::string path = path_of(dir, lines.name);
  const auto expect = [&](bool holds, const std::string& what) {
    if (!holds) throw_error(ErrorCode::corrupt_data, "lines '{}': {}", path, what);
  };
  const FileSystem::Status status = files.status(path);
  if (status.kind == FileSystem::Kind::none) {
    throw_error(ErrorCode::not_found, "there is no '{}', which belongs next to the checkpoint", path);
  }
  expect(status.kind == FileSystem::Kind::file, "it is not a file");
  expect(status.bytes >= lines.bytes, fmt::format("it has {} bytes, expected at least {}", status.bytes, lines.bytes));
  const FileBytes file = read_bytes(files, path, lines.bytes);
  Archive::Lines read{0, lines.lines, std::string(file.data.get(), file.size)};
  const std::string digits = digits_of({read.text});
  expect(file.size == lines.bytes && digits == lines.xxh3,
         fmt::format("the checksum of its first {} bytes is {}, expected {}", file.size, digits, lines.xxh3));
  const auto count = static_cast<std::uint64_t>(std::count(read.text.begin(), read.text.end(), '\n'));
  expect(count == lines.lines && (read.text.empty() || read.text.back() == '\n'),
         fmt::format("its first {} bytes have {} lines, expected {}", file.size, count, lines.lines));
  return read;
}

Archive::Lines read_good_lines(FileSystem& files, const std::string& dir, const Manifest::Lines& lines) {
  Archive::Lines read{.count = lines.lines, .damaged = true};
  const std::string path = path_of(dir, lines.name);
  if (files.status(path).kind != FileSystem::Kind::file) return read;
  FileBytes file;
  try {
    file = read_bytes(files, path, lines.bytes);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::out_of_memory) throw;
    return read;
  }
  std::uint64_t at = 0;
  for (const Manifest::Part& part : lines.parts) {
    if (part.bytes > file.size - at) break;
    const std::string_view text(file.data.get() + at, part.bytes);
    if (digits_of({text}) == part.xxh3) read.text += text;
    at += part.bytes;
  }
  return read;
}

}  // namespace giro::detail
