#include "runtime/files/line_files.h"

#include <fmt/format.h>

#include <algorithm>

#include <giro/runtime/error.h>

#include "runtime/files/file_operations.h"
#include "runtime/files/store_names.h"
#include "runtime/throw_error.h"

namespace giro::detail {
namespace {

// The minimum size of a part. In a long file a part has at least 1 / kPartsOfFile of the bytes, so that a manifest
// lists a few hundred parts.
constexpr std::uint64_t kLinePartBytes = 1024, kPartsOfFile = 64;

}  // namespace

void LineFiles::File::add(std::string_view text) {
  checksum.add(text.data(), text.size());
  while (!text.empty()) {
    const std::uint64_t full = std::max(kLinePartBytes, bytes / kPartsOfFile);
    const std::uint64_t missing = full - std::min(full, part_bytes);
    const std::size_t end = missing < text.size() ? text.find('\n', missing) : text.npos;
    const std::string_view taken = text.substr(0, end == text.npos ? end : end + 1);
    part.add(taken.data(), taken.size());
    part_bytes += taken.size();
    bytes += taken.size();
    text.remove_prefix(taken.size());
    if (part_bytes < full) continue;
    parts.push_back({std::exchange(part_bytes, 0), part.digits()});
    part = Checksum();
  }
}

std::vector<Manifest::Part> LineFiles::File::all_parts() const {
  std::vector<Manifest::Part> all = parts;
  if (part_bytes > 0) all.push_back({part_bytes, part.digits()});
  return all;
}

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
      if (bytes != file.bytes) {
        throw_error(ErrorCode::io,
                    "'{}' has {} bytes, expected the {} that were written; something else has changed it", name, bytes,
                    file.bytes);
      }
      write_durably(*files_.append(name), lines.text);
      file.add(lines.text);
      file.lines = lines.count;
    }
    appended.push_back({path, file.name, file.lines, file.bytes, file.checksum.digits(), file.all_parts()});
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
  Checksum checksum;
  checksum.add(file.data.get(), file.size);
  expect(
      file.size == lines.bytes && checksum.digits() == lines.xxh3,
      fmt::format("the checksum of its first {} bytes is {}, expected {}", file.size, checksum.digits(), lines.xxh3));
  Archive::Lines read{0, lines.lines, std::string(file.data.get(), file.size)};
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
    Checksum checksum;
    checksum.add(file.data.get() + at, part.bytes);
    if (checksum.digits() == part.xxh3) read.text.append(file.data.get() + at, part.bytes);
    at += part.bytes;
  }
  return read;
}

}  // namespace giro::detail
